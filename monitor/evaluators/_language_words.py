"""The commonest words of languages that share a script, used to tell these languages apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LATIN: Final[Mapping[str, str]] = {
    "English": """
        about after again against all also although always am among an and another any are around as at
        available away back be because been before being below between both but by called can cannot cost could
        course did different do does doing done down during each either every few find first following for found
        from get give given go goes had has have he help her here him his how however i if in including
        information into is it its itself just know known like made make many may me means might more most much
        must my need needs never new next no not now of often on once one only or order other our out over own
        part people per please possible provided put read same see set several shall she should since so some
        still such take takes team than that the their them then there therefore these they this those through
        times to today together too two under until up upon us use used uses using usually very via want was we
        well were what when where whether which while who why will with within without work works would year
        years yes you your yours
        """,
    "German": """
        ab aber alle allem allen aller alles als also am an andere anderen anderer auch auf aus außerdem bei
        beide beiden beim beispiel bereits beträgt bin bis bitte bleibt da dabei dafür damit danach dann daran
        darf darüber das dass davon dazu dem den denn der deren des deshalb die dies diese diesem diesen dieser
        dieses doch dort drei du durch ein eine einem einen einer eines einfach einige er erhalten erst erste
        ersten es etwa etwas für ganz geben gegen gehört gemacht genau gerne gibt gilt habe haben hat hatte
        heute hier ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in ist ja jahr jahre jahren jede
        jeden jeder jedes jedoch jetzt kann kannst kein keine keinen kommt können könnte leider liegt machen mal
        man mehr mit morgen muss musst müssen nach nachdem neben neue neuen nicht nichts noch nun nur ob oder
        ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sodass sogar soll sollte sollten
        sondern sonst sowie statt stehen steht tag tage tagen um und uns unser unsere unter viel viele vier vom
        von vor wann war waren was wegen weil weiter wenn wer werden wie wieder wir wird wo wurde wurden während
        zehn zu zum zur zwei zwischen über
        """,
    "French": """
        afin ai ainsi alors année années ans après au aucun aucune aujourd aussi autre autres aux avait avant
        avec avez avoir beaucoup bien car ce cela celle celui ces cet cette chaque chez comme comment contre
        dans de depuis des deux doit doivent donc dont du durant elle elles en encore entre est et eu eux faire
        fait faut fois grâce ici il ils jamais je jour jours jusqu la le les leur leurs lors lorsque lui là mais
        moins moment mon même mêmes ne non nos notre nous on ont ou où par parce partie pas pendant permet peu
        peut peuvent peux plus plusieurs pour pourquoi premier première près puis quand que quel quelle quelques
        qui quoi sa sans se sera ses seulement si son sont sous souvent sur ta tous tout toute toutes travail
        trois trouve trouver très tôt un une utiliser vers vos votre vous y à également étaient était été être
        """,
    "Spanish": """
        además ahora ahí al algo alguna algunos algún antes aquí as así aunque año años aún bien cada casi como
        con contra cual cuales cualquier cuando cuenta cuál cómo de debe deben del desde después donde dos
        durante día días el ella ellos en entonces entre era eran es esa ese eso esta estaba estar estas este
        esto estos está están estás fue fueron ha haber había hace hacer hacia han hasta hay hoy incluye la las
        le les lo los luego lugar mayor me medio mejor menos mi mientras misma mismo mismos mucho muchos muy más
        nada ni ningún no nos nosotros nuestra nuestro número o os otra otras otro otros para parte pero persona
        personas poco por porque primer primera puede pueden puedes pues que quien qué sea según ser será si
        sido siempre sin sino sobre solo son su sus sí sólo también tan tanto te tener tenía tiempo tiene tienen
        tienes toda todas todo todos trabajo tres tu tus un una uno unos usar usted va varios veces vez vida y
        ya él
        """,
    "Italian": """
        abbiamo ad adesso agli ai al alcune alcuni all alla alle allo allora altra altre altri altro anche
        ancora anni anno avere aveva bene c'è che chi ci circa ciò col come con contro così cui da dai dal dalla
        dalle degli dei del dell della delle dello deve devono di dopo dove due durante e ed era erano essere fa
        fare fatto fine fino fra già gli ha hai hanno ho i il in infatti inoltre invece io la le lei lo loro lui
        ma mai meno mentre mi modo molti molto nei nel nell nella nelle nello nessun nessuna noi non nostra
        nostri nostro o od oggi ogni oltre oppure parte per perché però più poi possono prima primo proprio puoi
        può qualche quale quali quando quanto quasi quattro quella quelle quelli quello questa queste questi
        questo qui quindi sarà se sei sempre senza si sia solo sono sopra sta stata stati stato su sua sue sugli
        sui sul sulla suo suoi tempo tra tre troppo tutta tutte tutti tutto un una uno vengono verso via viene
        volta volte è
        """,
    "Portuguese": """
        ainda algumas alguns além ano anos antes ao aos apenas apesar após aquele aqui as assim através até aí
        bem cada casa com como contra da dar das de deixar dela dele depois desde dessa desse desta deste deve
        devem dia dias do dois dos duas durante e ela elas ele eles em enquanto entre então era eram essa esse
        estar estava este está estão eu faz fazer foi foram hoje há isso isto já lhe lo logo maior mais mas me
        meio melhor menos mesma mesmo meu muita muitas muito muitos na nada nas nem nenhum nessa nesse nesta
        neste no nos nossa nosso num numa não nós número o onde os ou outra outras outro outros para parte pela
        pelas pelo pelos pessoas pode podem pois por porque porém possui pouco primeira primeiro quais qual
        quando quanto que quem se segundo sem sempre sendo ser será seu seus sido sob sobre sua suas são só
        também tem tempo ter tinha toda todas todo todos três tudo tão têm um uma umas usar vai vez vezes vida
        você vocês vários à às água é
        """,
    "Catalan": """
        així això al algun algunes als altra altre altres amb any anys aquest aquesta aquestes aquests avui bé
        cada cal cap com de del dels des després dia diferents dins dos el els em en encara ens entre era esta
        estan està et fa fer fet fins forma ha han hem hi ho i itself ja la les li lloc llocs manera mateix
        mentre molt molts més ni no nosaltres nostra nostre o on pel pels per perquè però poc poden pot qual
        quan que qui què sempre sense ser serà seu seus seva seves si sobre sota són també tan te tenen tenir
        tot tota totes tots tres té un una uns va van vostre vostè és
        """,
    "Dutch": """
        aan aantal achter al alle alleen alles als altijd ander andere anders bent bij bijvoorbeeld binnen daar
        daarna daarom dan dat de deel deze dezelfde die dit doen door dus echter een eens eerst eerste eigen elk
        elke en enkele er ga gaan gaat gebruik gebruikt geen geldt gemaakt goed groot grote haar had hadden heb
        hebben hebt heeft heel het hier hij hoe hoeveel hun ik in is ja jaar jaren je jij jouw kan komen komt
        kunnen kunt laatste maar maken man meer meest men met mijn moet moeten mogelijk na naam naar nadat
        nederland niet niets nieuwe nog nooit nu of om omdat onder ons onze ook op over per plaats sinds sommige
        staat steeds te tegen ten ter tijd tijdens toen tot tussen twee tweede uit uw vaak van vanaf veel vele
        verschillende vier volgens voor vooral waar waarin waarom wanneer want waren was wat we weer weken wel
        welke werd werden wie wij wilt worden wordt zal ze zeer zelf zich zien zij zijn zo zoals zonder zou
        zouden
        """,
    "Polish": """
        aby albo ale ani aż bardzo bez bo bowiem by bywa być był była było były będzie będą chce ci co czasie
        czy czyli dla dlatego dni dnia do dobrze dwa dwie dwóch dzień dzisiaj dzięki dziś gdy gdyby gdzie go i
        ich ile im inne innych iż ja jak jakie jako je jeden jednak jednego jedną jego jej jest jestem jeszcze
        jeśli jeżeli już każda każdy kiedy kilka kto która które którego której który których którym którzy lat
        lata lub ma mają mi miał mieć mimo między mnie mogą może można mu musi my na nad należy nam nas nawet
        nic nich nie niej nim niż nowy o od około on ona one oni oraz po pod podczas ponad ponieważ poza pracy
        przed przede przez przy raz razem roku również siebie się swoje swój są ta tak taki takich takie także
        tam te tego tej temu ten teraz też to tobie trzeba tu tutaj twój tych tyle tylko tym u w wiele więc
        więcej wszystkich wszystkie wszystko wynosi właśnie z za zawsze zaś ze został została zostały zł że żeby
        """,
    "Czech and Slovak": """
        aby aj ak ako ale alebo ani asi až bez bol bola boli bolo bude budou budú by bych byl byla bylo byly byť
        být celý co další dalších dne dnes do dva ešte han hlavní ho iba ich jak jako je jeden jediný jedna jeho
        jej jejich jen ješte ještě jich jim již jsem jsme jsou já k každý kde kdo kdy když ke keď kterou která
        které který kterých kteří kto ktorá ktoré ktorý ktorých kvôli lebo let mají majú mali mať medzi mezi mi
        moze možno mu musí my má mít môže může můžete na nad např nebo není než nich nie nové nás o od on ona
        pak po pod podle podľa pokud potom pre pred pri pro proti proto protože prvni první před při roce rok
        roku s sa se si sice sme som ste svoj svoje své svůj sú ta tak také takže tam te teda tedy ten tento
        tiež to toho tohto tom tomto tu tuto ty této týchto tým těchto u už v ve velmi veľmi viac vo vy vám vás
        více však všech všechny všetko všetky za zde zo či čo ďalej že
        """,
    "Croatian, Bosnian or Serbian": """
        ako ali bez bi bih bila bile bili bilo bio biti budući da dakle dan dana dio do dok druge drugi dva
        dvije ga gdje godina godine godini godinu i iako ih ili im ima imaju ipak isto iz između ja je jedan
        jedna jedno jer još kad kada kako kao ko kod koja koje kojem koji kojih koju kroz li mogu može mu na nad
        najviše nakon način naš ne nego neke neki nekoliko nema nešto ni nije nisu niti njegov njegova njegove
        njih no nova o od odnosno oko on ona oni osim ova ovaj ove ovo pa po pod pored posebno potrebno pre pred
        preko prema prije prvi puta radi sa sada sam samo se smo ste sto su sva sve svi svih svoj svoje ta tada
        taj tako također te ti tijekom to toga tom treba tri tu u uvijek uz već veće veći više vrijeme vrlo za
        zato zbog će ću čak četiri čime što
        """,
    "Swedish": """
        alla allt andra att av bara blev bli blir bra både bör dag dagar de del dem den denna deras dess dessa
        det detta dig din dina ditt du där därför då efter eftersom eller en enligt er ett fick finnas finns
        flera flesta från få får för före första genom ger gick går gör göra ha hade han hans har hela henne
        hennes hon hos hur här i icke igen in inga ingen inom inte ja jag kan kommer kring kunde kunna länge man
        med mellan men mer mest mig min mina mindre mitt mot mycket må många måste ned nu ny nya när nära någon
        något några och också oftast olika om oss på redan samma samt sedan sig sin sina sitt själv ska skall
        skulle som stor stora så sådan tack tid till tre två under upp ur ut utan vad var vara varit varje vem
        vi via vid vilka vilken vilket vill vår våra vårt än ännu är även år över
        """,
    "Danish or Norwegian": """
        ad af alle allerede alt altid andet andre at av bare begge blandt ble blev bli blir blive bliver både
        bør børn da dag dage de deg del dem den denne der deres derfor dermed det dets dette dig din disse dog
        du eft efter ein eller en end enn er et ett etter fik fikk flere for fordi fra få får følgende før
        første gang gi gir giver gjennom gjør gjøre god godt gør gøre ha hadde ham han hans har havde hele hende
        hennes her hjem hos hun hva hvad hver hvilke hvilken hvis hvor hvorav hvordan hvorfor i igen igennem
        igjen ikke ind ingen inn ja jeg kan kom komme kommer kun kunne lidt lige litt man mange med meg meget
        mellem mellom men mens mer mere mest mig min mod mot mye må måtte ned noe noen nog nogen noget nogle nok
        nu ny nye nå når nær og også om op opp opptil os oss over på samme samt seg selv senere ser sett side
        siden sig sin sine sitt skal skulle slik som stor store så til to tre ud uden um under ut uten var varer
        ved vi vil ville vor vores vår våre være været vært å år
        """,
    "Finnish": """
        aika aikana ainakin ainoa alle asti edelleen ei eikä eivät eli en ennen entä eri erittäin esim
        esimerkiksi että haluat he heidän heitä hän hänen ihan ilman itse ja jo joissa joka jokainen jolla
        jolloin jonka jos joskus jossa jota joten jotka jotta jälkeen jälleen kaikki kaikkien kanssa kautta
        kertaa keskellä koko kolme koska koskaan kuin kuinka kuitenkin kun kuten kuukauden lisäksi lähes me
        melko mikä mikäli minun minä missä miten mitä molemmat monta mukaan mutta muun muut myöhemmin myös ne
        niiden niin niistä niitä noin nyt nämä oikein ole olemme olet oli olisi olivat ollut on ovat paljon
        parempi perusteella pitää päivää saa saada samalla se sekä sen siellä sielä siihen siinä siis siitä
        silloin sillä sinun sitten sitä suoraan suuri tai takia tavoin te tulee tuli tällä tämä tämän tässä tätä
        täällä uuden uusi vaan vai vaikka vain varten vasta vielä voi voidaan voit vuoden vuonna vuotta yhdessä
        yksi yleensä yli
        """,
    "Hungarian": """
        abban ahogy aki akik akkor alapján alatt amely amelyek amelyet ami amikor annak arra az azok azonban azt
        aztán azután azért be belül benne bár csak de e ebben eddig egy egyes egyik egyéb egész el első elég
        előtt ennek erre ez ezek ezen ezt ezért fel felett ha hanem hiszen hogy hogyan hosszú hány három igen
        ilyen is ismét jó jól kell kellett ki képest két kívül között közül le legyen lehet lehetett lenni lesz
        lett ma magyar meg mellett mely melyek mert mi miatt mind minden mindig mint mintha mivel most már más
        még nagy nagyon ne nekem neki nem nincs nélkül olyan pedig rá része s saját sem semmi során szemben
        szerint szinte számos számára talán te tehát teljes tovább tud több történik ugyan ugyanis után utána
        vagy vagyis valamint való van vannak vele viszont volna volt voltak által általában át én éppen és év
        évek éves így óta össze úgy új újra
        """,
    "Romanian": """
        acea aceasta această acest acesta aceste aceştia aceștia acum ai aici al ale alt alte altă am ani anul
        apoi ar are asa asemenea astfel asupra atunci atât au avea avem bine ca care ce cea cei cel cele chiar
        cine cu cum când câte câteva că daca dacă dar dat de decât deja deoarece despre din dintre doar două
        dupa după ea ei el ele era este eu fac face fara fi fie fiecare fiind foarte fost fără iar in isi la le
        lei loc lor lui mai mari mult multe multă mulți ne nici nimic niște noastră noi nostru nou nu numai o
        ori orice pana parte pe pentru peste poate pot prea prima primul prin puțin sa sale sau se si spre sub
        sunt să său te timp timpul toate toată tot toți trebuie tuturor un una unde unei unele unor unui va vom
        vor zile îi îl în înainte încă între își şi și
        """,
    "Turkish": """
        ama ancak aynı ayrıca az açık bazı bağlı başka belirli ben beri bile bin bir biri birinci birkaç
        birlikte birçok biz bize bu buna bunlar bunu bunun burada bütün büyük da daha dahil dan de den değil
        dikkat diye diğer dolayı doğru dört eden eder edilen edilir ediyor elde en etmek etti fakat fazla gelen
        gerekir gerekli gibi göre gün günü hakkında hangi hem hep hepsi her herhangi hiç iki ile ilgili ilk ise
        iyi içerir için içinde işte kadar karşı kendi kez ki kim kişi küçük mi mu mü mı nasıl ne neden nerede
        nin o olan olarak oldu olduğu olduğunu olmak olması olmayan olup olur oluşan on ona ondan onlar onu onun
        orada sadece sahip sayılı siz sizin son sonra sonunda süre tam tarafından tarihinde tüm uygun var vardır
        ve veya ya yaklaşık yani yapan yapmak yapılan yeni yer yerine yok yüksek yüzde yıl yılı yılında zaman
        çok çünkü önce önemli özel üzere üzerinde üzerine üç şekilde şey şimdi şu
        """,
    "Vietnamese": """
        anh bao biết bên bạn bị cao cho chính chúng chưa chỉ các cách cái còn có công cùng cũng cơ cần của dùng
        giờ giữa gì hai hay hiện hoặc hàng hãy hơn học hợp khi khoảng khác không loại là làm lên lại lớn muốn mà
        mình mỗi một mới ngay nghiệp ngày người nhiều nhà như nhưng nhất nhận những nào này nên năm nơi nước nếu
        phải qua quan quá ra rất rằng sau sinh sẽ số sự theo thành tháng thì thông thế thể thời thực tiền trong
        trên trước tôi tại tất tới từ từng việc và vào vì vẫn vậy về với đang đi điều đây đã đó được đầu đến để
        định đối đồng độ động ở
        """,
    "Indonesian or Malay": """
        ada adalah agar akan akhir aku anda antara apa apabila apakah atas atau awak awal bagaimana bagi bagian
        bahawa bahkan bahwa baik banyak baru beberapa belum berada berbagai bertemu besar bisa boleh bukan cara
        cukup dalam dan dapat dari daripada datang demikian dengan di dia digunakan dilakukan diri dua hal hanya
        hari harus hingga ia ialah ini itu jadi jangan jenis jika juga kalau kali kami kamu karena kata ke kecil
        kembali kemudian kepada kerana ketika kita lagi lain lainnya lalu lebih lepas maka mana masa masih
        masing maupun memang memiliki mempunyai menggunakan menjadi menurut mereka merupakan mungkin namun nanti
        oleh orang pada paling para per perlu pernah pula pun saat saja salah sama sampai sana sangat satu saya
        sebagai sebelum sebuah secara sedang segera sehingga sejak sekali sekarang selain selalu selama seluruh
        semua sendiri seorang seperti sering serta sesuatu setelah setiap suatu sudah supaya tahun tanpa tapi
        telah tentang terdapat terhadap terjadi terlalu ternyata tersebut tetapi tiada tiap tidak tiga tinggi
        untuk waktu yaitu yakni yang
        """,
    "Icelandic": """
        af allir allt annað auk að aðeins bara betur ef eftir einn einnig ekki er eru eða fram frá fyrir fyrsta
        fá gegn gert get getur hafa hafi haft hann hans hefur heldur hjá hvar hvað hver hvernig hvort hér hún
        inn já kom koma meira með meðal milli mjög mun nú nýja og okkur sama saman samt sem sig sinn sjá skal sá
        sér sín síðan til um undir upp vegna vel vera verið verða verður vilja vill við yfir án árið áður í
        ólíkt úr út þann þar þarf þau það þegar þeim þeir þeirra þess þessa þessi þetta þurfa þá þær þér þó þú
        """,
    "Slovenian": """
        ali bi bil bila bile bili bilo biti bo bodo da dan danes del do dobro drugi dve dveh ga ima imajo in iz
        ja jaz je jih jim kaj kako kar katere kateri kdaj ki kje ko kot lahko le let leta letu mora morajo mu na
        nad najbolj nekaj nekateri ni niso nje njegov njihov no ob od okoli on oziroma pa po pod poleg potem
        prav pred preko pri prvi sam samo se sem si skupaj smo so svoj svoje ta tako takrat te tega tem ter ti
        tisti to treba tri tu tudi tukaj v vas vedno več vse vseh vsi za zakaj zaradi zato zelo čas čeprav še že
        """,
}
"""Words by language, in lower case. Languages whose readers mostly understand each other share an entry."""

CYRILLIC: Final[Mapping[str, str]] = {
    "Russian": """
        а без более больше будет будут бы был была были было быть в вам вас ведь весь во вот время все всего
        всех вы где год года году да даже дальше две для до должен должны другие другой его ее ему если есть еще
        ещё её же за затем здесь и из или им именно иногда их к каждый как какие какой когда которая которого
        которое которой которые который которых кроме кто куда лет либо лишь между меня мне много мог могут
        может можно мои мой мы на над надо нам нас наш не него нее нет неё ни никогда них ничего но ну нужно о
        об один одна однако около он она они оно от очень перед по под после потом потому почти при про просто
        против раз с сам самый своей свои свой себя сегодня сейчас со составляет так также такие такой там те
        тебе тебя тем теперь то тогда того тоже только том тому три ты тысяч у уже хотя чего чем через что чтобы
        эта эти этим этих это этого этой этом этот я является
        """,
    "Ukrainian": """
        а або адже але б без бо був буде будуть була були було бути більше в вам вас вже ви вона вони воно все
        всі всіх від він дві де державної для дня днів до доки дуже ж з з'являється за завдяки завжди здесь зі й
        його кожен коли крім куди лише мають має ми може можна можуть між на навіть над нам нас наш не нема
        немає ним них нього ні ніж о об один однак ось отже перед перше по поки потрібно потім при про проте
        протягом під після разом роки року років рік саме свою своє свої своїх себе серед середу собі стали
        становить та так такий також такі там тебе тепер ти тим тих то тобто того тоді той тому треба три тут
        тільки у усі хоча хто це цей цього цьому ця ці час через чи чого чому ще що щоб я як яка яке який яких
        якої якщо які якій є і із інша інших інші їм їх її
        """,
    "Bulgarian": """
        а ако ала без беше би бил била били било бъдат бъде бяха в вас вече ви време все всеки всички във ги го
        година години да дали две до докато дори друг други е един една едно ето за заради защо защото и из или
        им има имат каза как какво както като кога когато което които който коя която към ли ме между ми много
        могат може моля му на над най нас не него нещо нея ни ние никой нищо но някои някой няколко няма о об
        обаче около освен от още по повече под поне пред преди през при с са само се себе сега си след сме
        според срещу ст става сте страната съм със също тази така такива такъв там те тези ти това тогава този
        той толкова трябва тук тя тях утре хората част че ще я
        """,
    "Serbian": """
        а ако али без би била били било био бити ви више време година године години да дана два до док други его
        за због и из између или им има имају иначе ипак их к кад када како као код која које који којих коју
        кроз ли могу може му на над након наш најчешће не него ни нису није о ова овај ове ово овог од односно
        око он она они осим па по под после први пре преко према при с са само све сви свих свој своје се смо
        сте су та тада тако такође тај те то тога том томе треба три у увек уз често шта што ђе ја је један
        једна једно јер још њега његов његова његове њих ће
        """,
    "Belarusian": """
        а або ад аднак акрамя але альбо без больш бы была было былі быў вельмі вы гады год годзе гэта гэтай гэты
        гэтым гэтыя да дзе для до з за зараз каб каля калі кожны мае можа можна мы між нават над нам нас наш не
        няма ні па пад пасля перад пра праз пры раз разам сабе сам свае сваіх свой так таксама там тое той
        толькі тут ты тым у усе уся усё хто чым што яго яе як якая якое які якія яна яно яны яшчэ ён ёсць і із
        іх ў
        """,
    "Macedonian": """
        а ако ама без беше би биде била било ваше веќе во врз го година години да дали два две до додека друг
        други е еден една едно за зашто и из или им има имаат како кај кога кого кое кои кон кој која ли меѓу
        многу можат може мора му на над нас не него некои некој нема ни нив нивните ние но ова оваа овие овој од
        околу освен по под покрај поради потоа прв прва пред преку при сè само се себе сега сите сме со според
        сум таа така тие тоа толку тој треба тука уште што ѓи ќе
        """,
}

ARABIC: Final[Mapping[str, str]] = {
    "Arabic": """
        أحد أخرى أقل أكثر أما أن أنا أنت أنه أنها أو أي أيضا أيضًا إذا إلا إلى إن إنه الآن الأول التي الذي الذين
        العام الى ان بأن بشكل بعد بعض بل بما به بها بين تكون تلك تم ثم جدا جميع حتى حول حيث خلال دون ذات ذلك سنة
        سوف شيء ضد عام عبر على علي عليه عليها عن عند عندما غير فإن فقط في فيه فيها قال قبل قد كان كانت كل كما
        كيف لأن لا لدى لدينا لديه لقد لكل لكن لم لن له لها ليس ليست ما ماذا مثل مع من منذ منه منها نحن نحو هؤلاء
        هذا هذه هل هم هنا هناك هو هي و وأن وإن وفي وقد وكان وكانت ولا ولكن ولم وما ومن وهذا وهو وهي يتم يجب يكون
        يمكن يوم
        """,
    "Persian": """
        آن آنها آن‌ها ابتدا از است استفاده اش اما انجام اند او اگر ای این اینکه با باشد باید بدون بر برای برخی
        بسیار بعد به بهترین بود بودن بودند بوده بیش بیشتر بین تا تر توان تواند توسط جدید حال حتی خواهد خود داد
        داده دارای دارد دارند داشت داشته در درباره دو دیگر را روز روی زمان زیر سال سه سپس شد شدن شده شده‌است شما
        شود شوند طور عنوان فقط قابل قرار ما مانند مثل مربوط مورد می می‌توان می‌شود می‌کند نشان نظر نفر نمی نه
        نیز نیست نیستند ها های هایی هر هزار هست هستند هم همان همه همچنین همین هنوز هیچ و وجود وی پس پیش چند چه
        چون چیزی کار کرد کردن کردند کرده کند کنند کنید که گرفت گرفته گفت یا یک یکی
        """,
    "Urdu": """
        آپ اب اس اسی ان انھوں انہوں اور اپنا اپنی اپنے اگر ایسا ایسے ایک بات بعد بن بھی بہت تاہم تمام تو تک تھا
        تھی تھیں تھے جا جائے جاتا جاتی جاتے جب جس جن جو جیسے خود دو دوران دیا دیتے ذریعے رہا رہی رہے ساتھ سب
        سکتا سکتی سکتے سے صرف طرح طور لئے لیا لیکن لیے مزید مل مگر میں نہ نہیں نے و والا والی والے وقت وہ وہاں
        پر پھر پہلے چاہئے چاہیے کا کر کرتا کرتی کرتے کرنا کرنے کسی کو کوئی کون کچھ کہ کہا کی کیا کیلئے کیونکہ کے
        گئی گئے گا گی گیا گے ہم ہو ہوئی ہوئے ہوا ہوتا ہوتی ہوتے ہونا ہونے ہوں ہی ہیں ہے یا یہ یہاں یہی
        """,
}

CHINESE: Final[Mapping[str, str]] = {
    "Chinese in simplified characters": (
        "这们个来时说对会为国后过发经动现关点见长还问间没开从样无业边给让进军电车东话语书马门听觉实应该变条产务员"
        "际义区总处调报队议运几带认识远选统计设规则费证号级线组织权两亲图专办据术钱环气质汉单龙鱼"
    ),
    "Chinese in traditional characters": (
        "這們個來時說對會為國後過發經動現關點見長還問間沒開從樣無業邊給讓進軍電車東話語書馬門聽覺實應該變條產務員"
        "際義區總處調報隊議運幾帶認識遠選統計設規則費證號級線組織權兩親圖專辦據術錢環氣質漢單龍魚"
    ),
}
"""Characters that occur in only one of the two ways of writing Chinese."""

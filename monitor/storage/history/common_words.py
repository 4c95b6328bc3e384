"""Words common to questions on any subject, in the most used languages: they cannot name a topic."""

from __future__ import annotations

from typing import Final

_WORDS: Final = (
    # English
    "about after again also and any are because been before but can cannot could did does doing don for from get gets"
    " getting give had has have her here hers him his how into its itself just know let like make may mean might"
    " more most much must need not now off one only other our out over please same shall she should since some such"
    " tell than thank thanks that the their them then there these they this those through too under until upon use"
    " using very via want wants was way were what when where whether which while who why will with within without"
    " would yes you your yours hello explain describe show help possible"
    # German
    " aber alle als auch auf aus bei bin bis bitte dann das dass dem den denn der des die dies diese diesem diesen"
    " dieser doch durch ein eine einem einen einer eines gibt habe haben hallo hat hier ich ihr ihre ist kann kein"
    " keine konnen können man mein meine meinem meinen meiner mich mir mit muss müssen nach nicht noch nur oder sein"
    " sich sie sind soll sollte und uns unsere viel vom von vor wann warum was welche welchem welchen welcher welches"
    " wenn wer werden wie wieder wieviel wir wird wurde zum zur über für"
    # French
    " avec aux avez bonjour ces cette comment combien dans depuis des dois donc elle elles encore entre est être fait"
    " faire faut ils les leur lui mais merci mes mon notre nos nous ont ou où par pas peut peux pour pourquoi puis"
    " quand que quel quelle quelles quels qui quoi sans ses son sont sur tous tout une veux vos votre vous"
    # Spanish, Portuguese, Italian
    " algo algún alguna como con cómo cuando cuándo cual cuál cuáles cuanto cuánto del desde donde dónde ella ellos"
    " entre eres esta está este esto están favor gracias hacer haber hasta hay hola las los más mis muy nos para pero"
    " por porque puede puedo pueden que qué quién quiero ser sin sobre son soy sus también tengo tiene tienen todo una"
    " unos"
    " ainda até com da das dos ela ele eles em essa esse essa está estão eu fazer foi isso isto mais mas meu minha"
    " muito não nas nos obrigado olá onde ou para pela pelo pode posso preciso quais qual quando quanto quem quero são"
    " sem ser seu sua tem tenho uma você"
    " alla alle anche che chi ciao come con cosa cui dal dalla dei del della delle devo dove è essere fare gli grazie"
    " hanno nel nella non ogni per perché più posso può quale quali quando quanto quello questa questo sono sua suo sul"
    " sulla tra tutti tutto una voglio vorrei"
    # Dutch, the Nordic languages, Finnish
    " aan als ben bij dan dat deze die dit door een graag haar heb hebben heeft het hij hoe hoeveel ik kan kunnen maar"
    " meer mijn moet naar niet nog ook onze over te tot uit van veel voor waar waarom wanneer wat welke wie wij worden"
    " wordt zijn zonder"
    " alle att av bara blir den denna dere der det detta dig din du efter ej eller en er ett från få för går har hej"
    " hon hur hva hvad hvem hvilken hvis hvor hvordan hvorfor ikke inte jag jeg kan kommer med men mig min mit mitt mye"
    " måste nu när någon och også og om på skal ska skulle som så till til und ut vad var varför vem vi vil vilken"
    " vill"
    " ei ja joka jos kuin kuinka koska miksi missä mikä mitä mutta myös niin olen on onko ovat paljonko saa se sen tai"
    " tämä voi voiko voin"
    # Polish, Czech, Hungarian, Romanian, Turkish, Indonesian, Vietnamese
    " ale bardzo czy dla gdzie ile jak jaka jaki jakie jest już kiedy który która które mam może mogę moje mój nie oraz"
    " przez są się tak tego ten tylko tym żeby"
    " ako aby být byl co jak jaké jaký je jsem jsou kde kdy kolik který která mohu může můj na nebo není pro proč se si"
    " tak ten"
    " az csak egy ez hogy hogyan hol kell lehet mennyi mert mi mikor milyen mit nem és van vagy"
    " acest această care ce cine cum cât când din este eu fără în la mai mea meu nu pentru pot sau sunt un unde vreau"
    " ama bana ben bir bu çok da daha de en gibi hangi için ile kaç kadar mı mi mu mü mıyım nasıl ne neden nerede olan"
    " olarak var ve veya yok zaman"
    " ada adalah akan apa apakah atau bagaimana bagi berapa bisa dan dapat dari dengan di ini itu kapan ke mana mengapa"
    " oleh pada saya siapa tidak untuk yang"
    " các cách có của được gì không là làm một này nào như những tôi thế và với"
    # Russian, Ukrainian, Bulgarian, Greek
    " без был была было быть вам вас ваш все где для его ему если есть ещё еще здравствуйте или как какая какие какой"
    " какую когда кто мне мой могу может можно мой моя нас наш нет ними она они оно при почему пожалуйста про сколько"
    " так там тем тоже только уже чего чем что чтобы эта эти это этот"
    " або але був бути вас ваш все від він вона вони для його коли мені моя мій можна може немає при про скільки та"
    " також так там то тому треба хто цей це чи чому що щоб як яка який які"
    " ако аз без бих ви всички да дали до за защо имам как какво какъв когато кога колко която които къде ми мога може"
    " моля на не няма от по при са се след сме съм тази това този че"
    " αλλά αν από αυτά αυτή αυτό για δεν είναι έχει έχω και κάθε κατά μας με μου μπορεί μπορώ να οι όταν ότι που"
    " πόσο πότε πού ποια ποιο ποιος πρέπει πώς σας σε στη στην στις στο στον τα τη την της τι τις το τον του των"
    # Arabic, Persian, Hebrew, Hindi
    " أريد أن أو أين إلى إن التي الذي أي بعد بين حتى ذلك على عن عند في قبل كان كل كم كيف لا لم لماذا لي ما متى مع من"
    " هذا هذه هل هو هي"
    " آیا است اگر این آن با برای بر به تا چرا چه چطور چگونه چند را شما کجا کدام که کنم کی من می هست یا یک"
    " איך אם אני את או איפה גם האם הוא היא זה זאת יש כל כמה כן לא לי למה מה מי מתי על עם של"
    " और का कि की के को कब कहाँ कितना कितने कैसे कौन क्या क्यों पर मुझे में मेरा मेरी मेरे मैं यह या से है हैं हो"
    # Chinese and Japanese, by pairs of characters
    " 一个 什么 什麼 么样 可以 可否 吗我 哪些 哪里 如何 怎么 怎樣 怎样 怎麼 您好 我们 我想 我的 有什 是什 是否 是不"
    " 不是 么时 时候 能不 请告 请问 這個 这个 那个 为什 為什 多久 多少 多长 几个 你们 你好 需要 需不"
    " 何で 何が 何を 何の 何時 教え 下さ 願い 場合 方法"
)

COMMON_WORDS: Final = frozenset(_WORDS.split())
"""Case-folded."""

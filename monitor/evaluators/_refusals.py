"""Finds refusals by their wording: not knowing, declining, and the phrases that accompany these. Pure functions.

The patterns are for folded text (`_fold`). Languages: English, German, French, Spanish, Italian, Portuguese, Dutch,
Polish, Swedish, Danish, Norwegian, Turkish, Russian, Ukrainian, Arabic, Hebrew, Hindi, Chinese, Japanese, Korean,
Vietnamese, Indonesian.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal, NamedTuple

from monitor.evaluators._fold import fold
from monitor.model.case import Case

_CLAUSES = 40
_CLAUSE = 400

_SOURCE_EN = (
    "(?:documents?|texts?|passages?|context|sources?|information|articles?|results|knowledge base|materials?|excerpts?)"
)
_KNOWLEDGE_EN = (
    "(?:information|details?|data|access|answer|knowledge|context|documents?|enough|sufficient|record|mention"
    "|specifics?)"
)
_NOT_EN = r"(?:do not|don't|does not|doesn't|did not|didn't)"
_CANNOT_EN = (
    r"(?:can't|cannot|can not|could not|couldn't|am unable to|'m unable to|was unable to|am not able to|'m not able to"
    r"|won't|will not|would not|wouldn't)"
)

# Languages with spaces come first, in one group, so that the start of a word is checked once for all, not for each.
# Scripts other than Latin are in their own groups, so that none of their phrases is tried on a text in English.
UNKNOWN = re.compile(
    r"\b(?=\w)(?:"
    rf"\b(?:i|we) {_NOT_EN} (?:\w+ )?know\b"
    rf"|\b(?:i|we) (?:\w+ )?{_NOT_EN} (?:\w+ )?have [^.]{{0,50}}?\b{_KNOWLEDGE_EN}\b"
    rf"|\b(?:i|we) ?{_CANNOT_EN} (?:\w+ )?(?:find|locate|determine|say|tell|confirm|verify|answer|identify|see)\b"
    rf"|\b{_SOURCE_EN} (?:(?:provided|given|available|i have|above) )?{_NOT_EN} (?:\w+ )?(?:contain|provide|include"
    r"|mention|specify|state|say|address|give|offer|cover|answer|discuss|have|explain|describe|indicate)"
    rf"|\b(?:there is|there's|i have|i found|we have|we found) (?:no|not enough"
    rf"|insufficient)\b[^.]{{0,30}}?\b{_KNOWLEDGE_EN}\b"
    r"|\bno (?:\w+ )?(?:information|documents?|results?|answer|data)\b[^.]{0,40}?\b(?:available|found|provided|given)\b"
    rf"|\b{_KNOWLEDGE_EN}\b[^.]{{0,50}}?\b(?:is|are|was|were) (?:not|n't) (?:available|provided|included|mentioned"
    rf"|given|found)"
    r"|\bnot (?:\w+ )?(?:mentioned|specified|provided|stated|covered|addressed) (?:in|by) the\b"
    r"|\bi(?: am|'m) not (?:sure|certain|aware)\b|\b(?:i have )?no idea\b"
    # German
    r"|\b(?:ich|wir) (?:weiss|wissen) (?:\w+ ){0,3}?nicht\b|\bweiss ich (?:\w+ )?nicht\b"
    r"|\b(?:keine|keinerlei|nicht genug|nicht genugend) (?:\w+ )?(?:angaben|informationen|daten|antwort|hinweise)\b"
    r"|\b(?:dokumente?n?|text|kontext|unterlagen|quellen) (?:\w+ ){0,6}?(?:keine|nicht)\b"
    r"|\bnicht (?:(?:in|aus) (?:den|der|dem|diesen|meinen)|im) (?:\w+ )?(?:dokumenten|unterlagen|quellen|kontext"
    r"|text)\b"
    # French
    r"|\bje ne (?:le )?(?:sais|trouve|connais|dispose) pas\b|\bje n'ai (?:pas|aucune|trouve aucune)\b"
    r"|\baucune information\b"
    r"|\b(?:documents?|textes?|contexte|sources?) (?:\w+ )?(?:ne|n')\b"
    # Spanish
    r"|\bno (?:lo )?se(?: la respuesta)?(?=[,.!;]|$)|\bno (?:tengo|dispongo de|cuento con|encuentro|encontre|hay"
    "|existe)"
    r" (?:\w+ )?(?:informacion|datos|acceso|respuesta|idea|conocimiento)"
    r"|\b(?:documentos?|textos?|contexto|fuentes) (?:\w+ )?no (?:contien|mencion|proporcion|incluy|especific|indic)"
    # Italian
    r"|\bnon (?:lo )?so\b|\bnon (?:ho|dispongo di|trovo|ci sono|ho trovato) (?:\w+ )?(?:informazion|dati|risposta|idea)"
    r"|\b(?:documenti|testo|contesto|fonti) non (?:contien|contengono|menzion|fornisc|specific|indic)"
    # Portuguese
    r"|\b(?:eu )?nao sei\b|\bnao (?:tenho|disponho de|encontrei|ha) (?:\w+ )?(?:informac|dados|acesso|resposta|ideia)"
    r"|\b(?:documentos?|textos?|contexto|fontes) (?:\w+ )?nao (?:cont|mencion|fornec|inclu|especific|indic)"
    # Dutch
    r"|\b(?:ik|we|wij) (?:weet|weten) (?:\w+ ){0,3}?niet\b|\bweet ik (?:\w+ ){0,2}?niet\b"
    r"|\b(?:geen|onvoldoende) (?:\w+ )?(?:informatie|gegevens|antwoord) (?:\w+ ){0,3}?(?:over|gevonden|beschikbaar"
    r"|op)\b"
    r"|\b(?:documenten?|tekst|context|bronnen) (?:\w+ ){0,6}?(?:geen|niet)\b"
    # Polish
    r"|\bnie (?:wiem|znam odpowiedzi|jestem pew\w+|(?:mam|posiadam|znalaz\w+) (?:\w+ ){0,2}?(?:informacji|danych"
    r"|dostepu"
    r"|odpowiedzi))|\bbrak (?:\w+ )?(?:informacji|danych)\b"
    r"|\b(?:dokument\w*|tekst\w*|kontekst\w*|zrod\w+) (?:\w+ ){0,3}?nie (?:zawier|podaj|wspomin|okresl)"
    # Swedish, Danish, Norwegian
    r"|\b(?:jag|jeg|vi) (?:vet|ved) (?:\w+ ){0,2}?(?:inte|ikke)\b|\b(?:vet|ved) (?:jag|jeg) (?:\w+ )?(?:inte|ikke)\b"
    r"|\b(?:jag|jeg) (?:har|hittar|hittade|finner|fant|fandt|finder) (?:\w+ ){0,2}?(?:ingen|inga|inte|ikke) (?:\w+ )?"
    r"(?:information|informasjon|uppgifter|oplysninger|opplysninger|svar)"
    r"|\b(?:dokument\w*|text\w*|tekst\w*|kontext\w*|kontekst\w*|kallor\w*|kilder\w*) (?:\w+ ){0,4}?"
    r"(?:inte|ikke|ingen) (?:\w+ )?(?:inneh|indehold|nevner|namner|naevner|nævner|inform|opply|oplys|uppgift)"
    # Turkish
    r"|\bbilmiyor(?:um|uz)\b|\bemin degilim\b|\b(?:bilgi|veri|cevap|yanıt)\w* (?:\w+ ){0,3}?(?:yok|bulunmuyor"
    r"|bulunmamakta|bulamadı|mevcut degil|yer almıyor|yer almamakta|sahip degil)"
    # Vietnamese
    r"|\b(?:toi|chung toi|minh) (?:\w+ )?khong (?:biết|ro|chắc|tim thấy|co (?:\w+ ){0,2}?thong tin)"
    r"|\bkhong (?:co|tim thấy) (?:\w+ ){0,2}?thong tin\b"
    r"|\b(?:tai liệu|van bản|ngữ cảnh) (?:\w+ ){0,3}?khong (?:đề cập|chứa|cung cấp|noi)"
    # Indonesian
    r"|\b(?:saya|kami) (?:tidak|belum) (?:tahu|mengetahui|yakin|menemukan|memiliki (?:\w+ )?(?:informasi|data))"
    r"|\btidak (?:ada|terdapat|tersedia|cukup) (?:\w+ )?(?:informasi|data|jawaban)\b"
    r"|\b(?:dokumen|teks|konteks|sumber) (?:\w+ ){0,3}?tidak (?:memuat|menyebut|mengandung|berisi|memberi)"
    # Other scripts, tried only at a non-ASCII character
    r"|\b(?=[^\x00-\x7f])(?:"
    # Russian
    r"я не (?:знаю|нашел|нашёл|нашла|располагаю|имею|уверен)|\b(?:нет|недостаточно) (?:\w+ )?(?:информации|данных"
    "|сведений)"
    r"|\b(?:документ|текст|контекст|источник)\w* (?:\w+ ){0,3}?не (?:содерж|указ|упомин|предостав)"
    # Ukrainian
    r"|\b(?:я|ми) не (?:знаю|знаємо|маю інформації|знайш|впевнен)"
    r"|\b(?:немає|недостатньо|бракує) (?:\w+ ){0,2}?(?:інформації|даних|відомостей)"
    r"|\b(?:документ|текст|контекст|джерел)\w* (?:\w+ ){0,3}?не (?:міст|вказ|згаду|нада)"
    # Arabic
    r"|\bلا (?:أعرف|أعلم|أدري|نعرف|نعلم)\b|\b(?:لا|ليس|ليست) (?:\w+ ){0,2}?(?:معلومات|بيانات|إجابة)\b"
    r"|\bلم (?:أجد|أعثر)\b|\b(?:الوثائق|المستندات|النص|السياق|المصادر) (?:\w+ ){0,2}?لا (?:تحتوي|تذكر|تتضمن|يحتوي"
    r"|يذكر|يتضمن)"
    # Hebrew
    r"|\b(?:אני|אנחנו) לא (?:יודע|בטוח|מוצא)|\bאין (?:לי |לנו |במסמכים )?(?:\w+ )?(?:מידע|נתונים|תשובה)\b|\bלא מצאתי\b"
    r"|\b(?:המסמכים|המסמך|הטקסט|ההקשר|המקורות) (?:\w+ ){0,2}?(?:לא|אינם|אינו) (?:מכיל|כולל|מזכיר|מציי)"
    ")"
    ")"
    r"|(?=[\u0900-\uffff])(?:"
    # Chinese
    "我(?:并)?不(?:知道|清楚|确定|確定)|(?:没有|沒有|未)(?:提供|提及|包含|说明|提到|找到)?[^。]{0,12}(?:信息|资料"
    "|資訊|資料|内容|答案)"
    r"|(?:文档|文件|上下文|资料|資料|文本)[^。]{0,15}(?:没有|并未|未|沒有)(?:提供|提及|包含|说明|提到)"
    # Japanese
    "|(?:分|わ)かりません|存じません|(?:情報|記載|記述|回答)[がはも](?:ありません|見つかりません|含まれて"
    "|されていません|ございません)|見つかりませんでした"
    # Korean
    "|모르겠|모릅니다|알 수 (?:없|가 없)|정보[가는를도] (?:없|찾을 수 없|포함)|(?:찾을|확인할) 수 없|언급(?:되어|돼"
    "|하고) 있지 않"
    # Hindi
    "|मुझे (?:नहीं पता|पता नहीं)|मैं नहीं जानत|(?:जानकारी|उत्तर|जवाब)[^।]{0,30}?(?:नहीं (?:है|मिल|दी)|उपलब्ध नहीं)"
    ")"
)

DECLINED = re.compile(
    r"\b(?=\w)(?:"
    rf"\b(?:i|we) ?{_CANNOT_EN} (?:\w+ ){{0,2}}?(?:help|assist|provide|support|fulfill?|comply|discuss|share|give"
    rf"|create"
    "|generate|write|engage|continue|respond|do that|process|complete|offer|disclose|recommend|advise|participate"
    r"|talk)\b"
    r"|\b(?:i|we) (?:must|have to|need to|would like to|respectfully|'ll have to) (?:\w+ )?(?:decline|refuse)\b"
    r"|\bi decline\b"
    r"|\b(?:i(?: am|'m) )?not (?:comfortable|allowed|permitted|authori[sz]ed|willing"
    r"|able) (?:\w+ )?to (?:\w+ )?(?:help|assist|provide"
    r"|discuss|share|answer|give|respond|talk)"
    r"|\b(?:goes against|violates?|against) (?:my|our|the) (?:\w+ )?(?:guidelines|polic\w+|programming|principles"
    r"|rules)\b"
    r"|\b(?:outside|beyond) (?:the scope of )?(?:my|what i)\b|\bi(?:'d| would) (?:prefer|rather) not\b"
    r"|\bas an? (?:ai|artificial intelligence|language model)\b[^.]{0,60}?\b(?:not|n't|cannot|unable)\b"
    r"|\b(?:request|prompt|response|question) (?:was|has been|is) (?:blocked|flagged|filtered|rejected)\b"
    # German
    r"|\b(?:kann|konnen|darf|mochte|werde) (?:ich|wir) (?:\w+ ){0,6}?(?:nicht|keine)\b|\b(?:ich|wir) (?:kann|konnen"
    "|darf|mochte|werde)"
    r" (?:[\w-]+ ){0,8}?(?:nicht|keine\w*) (?:\w+ ){0,4}?(?:helf|weiterhelf|beantwort|geb|find|unterstutz|ausfuhr"
    "|bereitstell|sag"
    r"|mach|tun|erteil|teil|nenn)"
    # French
    r"|\bje ne (?:peux|suis|puis|pourrai) (?:pas|malheureusement pas)\b[^.]{0,40}?\b(?:aider|repondre|fournir|donner"
    "|partager|mesure|autoris|traiter|faire)"
    r"|\bil m'est impossible\b"
    # Spanish
    r"|\bno (?:puedo|podemos|podre|me es posible|estoy autorizad\w|soy capaz de) (?:\w+ )?(?:ayud|respond|contest"
    "|proporcion|ofrec|dar|encontr"
    r"|hacer|asist|decir|compart|cumpl|brind|realiz)"
    # Italian
    r"|\bnon (?:posso|possiamo|riesco a|sono in grado di|mi e possibile) (?:\w+ )?(?:aiut|rispond|forn|dar|trovar|far"
    "|assist|dir|condivid)"
    # Portuguese
    r"|\bnao (?:posso|podemos|consigo|sou capaz de|estou autorizad\w a|me e possivel) (?:\w+ )?(?:ajud|respond|fornec"
    "|dar|encontr|faz|compartilh|dizer)"
    # Dutch
    r"|\b(?:kan|mag|wil|zal) (?:ik|wij|we) (?:\w+ ){0,6}?(?:niet|geen)\b"
    r"|\b(?:ik|wij|we) (?:kan|kunnen|mag|mogen|wil|zal) (?:\w+ ){0,8}?(?:niet|geen\w*) (?:\w+ ){0,4}?(?:help|beantwoord"
    r"|antwoord|geven|vinden|verstrek|zeggen|ingaan)"
    # Polish
    r"|\bnie (?:moge|mozemy|jestem w stanie) (?:\w+ ){0,3}?(?:pomoc|odpowied|udziel|podac|znalez|dostarcz)"
    # Swedish, Danish, Norwegian
    r"|\b(?:jag|jeg|vi) (?:kan|far|vill|vil) (?:\w+ ){0,3}?(?:inte|ikke) (?:\w+ ){0,3}?(?:hjalp|hjelp|hjælp|svar|besvar"
    r"|ge|gi|hitta|finn)|\b(?:kan|far) (?:jag|jeg) (?:\w+ ){0,4}?(?:inte|ikke)\b"
    # Turkish
    r"|\byardımcı olam\w+|\b(?:cevap|yanıt)\w* (?:veremi|veremem|verememekte)\w*|\b(?:yanıt|cevap)layam\w+"
    # Vietnamese, Indonesian
    r"|\b(?:toi|chung toi|minh) (?:\w+ )?khong thể (?:\w+ ){0,3}?(?:giup|trả lời|cung cấp|hỗ trợ)"
    r"|\b(?:saya|kami) tidak (?:dapat|bisa|boleh) (?:\w+ ){0,3}?(?:membantu|menjawab|memberi|menyedia)"
    # Other scripts, tried only at a non-ASCII character
    r"|\b(?=[^\x00-\x7f])(?:"
    # Russian
    r"(?:я )?не (?:могу|можем|смогу|имею права) (?:\w+ ){0,3}?(?:помо|ответ|предостав|дать|обсужд|выполн|сказ"
    "|подел|найти)"
    # Ukrainian
    r"|\bне (?:можу|можемо|зможу) (?:\w+ ){0,3}?(?:допомо|відпов|нада|обговор|сказ|знайти)"
    # Arabic, Hebrew
    r"|\bلا (?:أستطيع|يمكنني|يمكننا|نستطيع) (?:\w+ ){0,3}?(?:مساعد|المساعدة|الإجابة|تقديم|الرد|إعطاء)"
    r"|\b(?:לא|איני|אינני) (?:יכול|יכולה|יכולים|אוכל) (?:\w+ ){0,2}?(?:לעזור|לענות|לסייע|לספק|לתת)"
    ")"
    ")"
    r"|(?=[\u0900-\uffff])(?:"
    # Chinese, Japanese, Korean
    "(?:我|我们|我們)?(?:无法|不能|無法|不便)(?:为您|为你|為您|向您)?[^。]{0,10}(?:回答|提供|帮|协助|幫|協助|讨论"
    "|討論|满足|分享)"
    "|(?:お答え|回答|お手伝い|提供|対応|お役に立つこと)[をがは]?(?:することは?)?(?:できません|いたしかねます"
    "|できかねます|しかねます)|答えられません"
    r"|(?:답변|도와|도움|제공|응답|대답)[^.]{0,12}?(?:수 없|드릴 수|어렵|못)"
    # Hindi
    "|(?:मदद|सहायता|उत्तर|जवाब)[^।]{0,20}?(?:नहीं कर|नहीं दे|असमर्थ)"
    ")"
)

BESIDE = re.compile(
    "(?:"
    "^(?:i(?: am|'m) (?:very |so |really )?)?(?:sorry|apologi[sz]e|i apologi[sz]e|my apologies|unfortunately"
    r"|i understand|thank)\b.{0,40}$"
    r"|^(?:es )?tut mir (?:sehr )?leid\W*$|^(?:je suis )?desole\w?\W*$|^lo siento(?: mucho)?\W*$|^mi dispiace\W*$"
    r"|^(?:desculpe|sinto muito|lamento)\W*$"
    r"|^(?:извините|простите|к сожалению)\W*$|^(?:抱歉|对不起|對不起|很抱歉)\W*$|^(?:申し訳(?:ありません"
    r"|ございません)|すみません)\W*$|^죄송합니다\W*$"
    "|^(?:but )?(?:please )?(?:contact|consult|provide more|refer to|check|try|rephrase|reach out|ask (?:me|another)"
    r"|visit)\b"
    r"|^(?:bitte|veuillez|n'hesitez|por favor|per favore|пожалуйста|请|請|如果|もし|ほか|他の|다른|궁금)"
    r"|^(?:het )?spijt me(?: zeer)?\W*$|^(?:niestety|przykro mi|przepraszam)\W*$|^(?:tyvarr|jag ar ledsen|beklager"
    r"|desværre"
    r"|forlat|jeg er lei meg)\W*$|^(?:uzgunum|maalesef|ozur dilerim)\W*$|^(?:вибачте|перепрошую|на жаль)\W*$"
    r"|^(?:عذر(?:ا|ًا|اً)|آسف|للأسف|نعتذر|أعتذر)\W*$|^(?:מצטער|מצטערת|סליחה|לצערי)\W*$|^(?:क्षमा करें|माफ कीजिए"
    r"|माफ करें)\W*$"
    r"|^(?:xin lỗi|rất tiếc)\W*$|^(?:mohon )?maaf\W*$"
    r"|^(?:neem contact op|prosze |var god|kontakta|kontakt |lutfen|будь ласка|зверніться|يرجى|כדאי לפנות|אנא|कृपया"
    r"|vui long"
    r"|silakan|harap)"
    r")|(?:\b(?:recommend|suggest|best to|advise) (?:\w+ )?(?:consult|contact|check|reach|visit|refer|speak|seek)"
    r"|\bfeel free\b|\blet me know\b|\bis there (?:anything|something)\b|\b(?:can|may) i (?:help|assist)\b"
    r"|\bwould you like\b|\bhappy to help\b"
    r"|\bif you (?:have|need|would|could|can|provide|want|'d)\b.{0,80}\b(?:question|help|else|information|context"
    "|details|topic|clarif|assist)"
    r"|\bcould you (?:please )?(?:provide|clarify|rephrase|share|tell)"
    ")"
)

_border = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++(?=\s|$)|[\u3002\uff01\uff1f\u0964\u061f]+|\n+"
    r"|\s(?=but (?:i|it|the|they|he|she|there|we)\b)|[,;] (?=(?:but|however|although|aber|jedoch|mais|pero|ma|mas"
    r"|porém|но|maar|ale|men|ama|але) )|\uff0c(?=但)",
    re.IGNORECASE,
)
_quoted = re.compile(
    r"```.*?(?:```|\Z)|^>[^\n]*|\"[^\"\n]{1,400}\"|\u201c[^\u201d\n]{1,400}\u201d"
    r"|\u201e[^\u201c\u201d\n]{1,400}[\u201c\u201d]"
    r"|«[^»\n]{1,400}»|「[^」\n]{1,400}」",
    re.DOTALL | re.MULTILINE,
)
_QUOTING = ("```", ">", '"', "\u201c", "\u201e", "«", "「")
"""The beginnings of quotes. Most responses contain none of these, which is quick to check."""
_conceding = re.compile(r"(?:while|although|though|even though|whereas|obwohl|bien que|aunque|sebbene|embora|хотя)\b")
_letter = re.compile(r"[^\W_]")

# Statements of the assistant about itself: not a claim about the subject.
_of_itself = re.compile(
    r"(?:i(?: am|'m)? (?:here|only|just|designed|trained|built|an? )|i can (?:only )?(?:help|answer|assist)"
    r"|my (?:purpose|role"
    r"|task|job|knowledge|guidelines|instructions)|this assistant|as an? (?:ai|assistant|language model)|it (?:is|goes)"
    r" (?:against|outside|beyond)|that(?:'s| is) (?:against|outside|beyond)|(?:ich )?(?:bin|kann) (?:nur"
    r"|ausschliesslich) "
    r"|meine aufgabe|ich bin (?:ein|nur)|je (?:suis|peux) (?:un |une |seulement )|mon role|solo puedo|mi funcion"
    r"|posso solo"
    r"|so posso|ik (?:ben|kan) (?:een|alleen)|mogę tylko|moge tylko)"
)
# A part of a clause that asserts something besides the refusal: "I do not know, it was probably Rome".
_parts = re.compile(r"\s?[,;:]\s|\s[-\u2013\u2014]+\s|\s(?=(?:but|however|though|although|aber|mais|pero|maar|ale)\s)")
_asserts = re.compile(
    r"(?:but|however|though|although|yet|probably|perhaps|maybe|presumably|i(?: am|'m)? (?:think|guess|believe"
    r"|suppose)\w*|it|its|it's"
    r"|there (?:is|are|was|were)|this|that is|that's|they|he|she|the|these|those|aber|jedoch|vermutlich|wahrscheinlich"
    r"|vielleicht|ich (?:glaube|denke|vermute)|es (?:ist|war|gibt|sind)|mais|c'est|c'etait|il y a|je (?:pense|crois)"
    r"|probablement|peut-etre|pero|es|era|fue|creo|probablemente|quiza|ma|penso|credo|probabilmente|forse|mas|acho"
    r"|provavelmente|talvez|maar|waarschijnlijk|misschien|men|kanske|ale|но|возможно|наверное|вероятно|але|ama)\b"
)
_PART_WORDS = 3
_apology = re.compile(
    r"^(?:(?:i(?: am|'m) )?(?:so |very |really )?sorry|unfortunately|leider|malheureusement|niestety)\b[,:]?\s?"
)
# "I am not sure about that" and "I am not sure." refuse; "I am not sure I would call it a comedy" does not.
_unsure = re.compile(r"\bnot (?:sure|certain|aware)\b")
_unsure_that = re.compile(
    r"\bnot (?:sure|certain|aware)\b(?!\s*(?:about|what|how|whether|if|which|when|where|who|why|of|because|based"
    r"|from|on|regarding|but)\b|\s*$|\s*[,.;!?])"
)
_number = re.compile(r"\d+(?:[.,:]\d+)*")
_citation = re.compile(r"\[[^\]\n]{0,40}\]|\((?:source|quelle|doc(?:ument)?)[^)\n]{0,40}\)", re.IGNORECASE)
_QUOTED = 60  # characters: up to here a quote is the title of something, not a text
_TURNS = 8
_READ = 4_000  # a refusal is shorter; a longer response claims something


class Clause(NamedTuple):
    """A sentence of a response, or a part of one before "but", with its offsets in characters and its folded text."""

    start: int
    end: int
    kind: Literal["unknown", "declined", "beside", "answer"]
    folded: str


def clauses_of(response: str) -> Iterator[Clause]:
    """Split `response` into clauses, leaving out quotes and code. After very many, the last is the whole rest."""
    text = response
    if any(map(response.__contains__, _QUOTING)):
        text = _quoted.sub(lambda quote: " " * len(quote[0]), response)
    if not _letter.search(text):
        text = response
    start = 0
    borders = (border.end() for border in _border.finditer(text))
    for count, end in enumerate(chain(islice(borders, _CLAUSES), (len(text),))):
        raw = text[start:end]
        first = start + len(raw) - len(raw.lstrip())
        last = start + len(raw.rstrip())
        if _letter.search(raw):
            folded = fold(raw[:_CLAUSE]).replace("\u2019", "'").strip(" *_#>-")
            yield Clause(first, last, "answer" if count == _CLAUSES else _kind(folded), folded)
        start = end


def is_pure_refusal(case: Case) -> bool:
    """Return whether the response refuses and claims nothing else.

    "I do not know exactly, but it was in 1492" claims something. So does a refusal with a number that the user has not
    given, with a quote, or with a sentence that neither refuses, nor accompanies a refusal, nor is about the assistant.
    """
    response = case.response
    if len(response) > _READ or "```" in response:
        return False
    refuses = False
    for clause in clauses_of(response):
        if clause.kind == "answer":
            if not (refuses and _of_itself.match(clause.folded)):
                return False
        elif _claims_beside(clause):
            return False
        refuses = refuses or clause.kind in ("unknown", "declined")
    return refuses and not _has_own_material(case)


def _claims_beside(clause: Clause) -> bool:
    folded = _apology.sub("", clause.folded)
    if len(folded) >= _CLAUSE or _unsure_that.search(folded):
        return True
    others = [part for part in _parts.split(folded) if len(part.split()) >= _PART_WORDS and _kind(part) == "answer"]
    return bool(others) if _unsure.search(folded) else any(map(_asserts.match, others))


def _has_own_material(case: Case) -> bool:
    response = _citation.sub(" ", case.response)
    if any(len(quote[0]) > _QUOTED or quote[0].startswith(">") for quote in _quoted.finditer(response)):
        return True
    asked = {
        number
        for turn in (case.request.query, *(one.content for one in case.request.history[-_TURNS:]))
        for number in _number.findall(turn[:_READ])
    }
    return any(number not in asked for number in _number.findall(response))


def _kind(folded: str) -> Literal["unknown", "declined", "beside", "answer"]:
    if _conceding.match(folded):
        return "answer"
    if DECLINED.search(folded):
        return "declined"
    if UNKNOWN.search(folded):
        return "unknown"
    return "beside" if BESIDE.search(folded) else "answer"

"""Patterns of refusals for folded text (`_fold`): not knowing, declining, and the phrases that go with them.

Languages: English, German, French, Spanish, Italian, Portuguese, Russian, Chinese, Japanese, Korean.
"""

from __future__ import annotations

import re

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

UNKNOWN = re.compile(
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
    # Russian
    r"|\bя не (?:знаю|нашел|нашёл|нашла|располагаю|имею|уверен)|\b(?:нет|недостаточно) (?:\w+ )?(?:информации|данных"
    "|сведений)"
    r"|\b(?:документ|текст|контекст|источник)\w* (?:\w+ ){0,3}?не (?:содерж|указ|упомин|предостав)"
    # Chinese
    "|我(?:并)?不(?:知道|清楚|确定|確定)|(?:没有|沒有|未)(?:提供|提及|包含|说明|提到|找到)?[^。]{0,12}(?:信息|资料"
    "|資訊|資料|内容|答案)"
    r"|(?:文档|文件|上下文|资料|資料|文本)[^。]{0,15}(?:没有|并未|未|沒有)(?:提供|提及|包含|说明|提到)"
    # Japanese
    "|(?:分|わ)かりません|存じません|(?:情報|記載|記述|回答)[がはも](?:ありません|見つかりません|含まれて"
    "|されていません|ございません)|見つかりませんでした"
    # Korean
    "|모르겠|모릅니다|알 수 (?:없|가 없)|정보[가는를도] (?:없|찾을 수 없|포함)|(?:찾을|확인할) 수 없|언급(?:되어|돼"
    "|하고) 있지 않"
)

DECLINED = re.compile(
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
    # Russian
    r"|\b(?:я )?не (?:могу|можем|смогу|имею права) (?:\w+ ){0,3}?(?:помо|ответ|предостав|дать|обсужд|выполн|сказ"
    "|подел|найти)"
    # Chinese, Japanese, Korean
    "|(?:我|我们|我們)?(?:无法|不能|無法|不便)(?:为您|为你|為您|向您)?[^。]{0,10}(?:回答|提供|帮|协助|幫|協助|讨论"
    "|討論|满足|分享)"
    "|(?:お答え|回答|お手伝い|提供|対応|お役に立つこと)[をがは]?(?:することは?)?(?:できません|いたしかねます"
    "|できかねます|しかねます)|答えられません"
    r"|(?:답변|도와|도움|제공|응답|대답)[^.]{0,12}?(?:수 없|드릴 수|어렵|못)"
)

BESIDE = re.compile(
    "^(?:i(?: am|'m) (?:very |so |really )?)?(?:sorry|apologi[sz]e|i apologi[sz]e|my apologies|unfortunately"
    r"|i understand|thank)\b.{0,40}$"
    r"|^(?:es )?tut mir (?:sehr )?leid\W*$|^(?:je suis )?desole\w?\W*$|^lo siento(?: mucho)?\W*$|^mi dispiace\W*$"
    r"|^(?:desculpe|sinto muito|lamento)\W*$"
    r"|^(?:извините|простите|к сожалению)\W*$|^(?:抱歉|对不起|對不起|很抱歉)\W*$|^(?:申し訳(?:ありません"
    r"|ございません)|すみません)\W*$|^죄송합니다\W*$"
    "|^(?:but )?(?:please )?(?:contact|consult|provide more|refer to|check|try|rephrase|reach out|ask (?:me|another)"
    r"|visit)\b"
    r"|\b(?:recommend|suggest|best to|advise) (?:\w+ )?(?:consult|contact|check|reach|visit|refer|speak|seek)"
    r"|\bfeel free\b|\blet me know\b|\bis there (?:anything|something)\b|\b(?:can|may) i (?:help|assist)\b"
    r"|\bwould you like\b|\bhappy to help\b"
    r"|\bif you (?:have|need|would|could|can|provide|want|'d)\b.{0,80}\b(?:question|help|else|information|context"
    "|details|topic|clarif|assist)"
    r"|\bcould you (?:please )?(?:provide|clarify|rephrase|share|tell)"
    r"|^(?:bitte|veuillez|n'hesitez|por favor|per favore|пожалуйста|请|請|如果|もし|ほか|他の|다른|궁금)"
)

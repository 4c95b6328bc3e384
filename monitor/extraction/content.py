"""Decides by rule whether a response has content: a response without content is never shown to a judge.

Language models give good scores to a colon, to "Thought process:" or to "Solution" (Zhao et al. 2025, "One Token to
Fool LLM-as-a-Judge", arXiv:2507.08794). A real word is different: "Paris", "42" and "No" are answers. A single letter,
or a word such as "Solution", is an answer only if the case makes it one: "B" to a question with the options A to D.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from monitor.model.case import Case

_LABEL_WORDS, _LABEL_CHARACTERS = 5, 48
_CHARACTERS: Final = 8_192
"""Maximum number of different characters cached; Chinese texts have a few thousand."""

_COLONS = (":", "\N{FULLWIDTH COLON}")
# Openings of an answer that never follows, case-folded, without punctuation, in the paper's languages and more.
_OPENINGS = frozenset(
    """
    solution|the solution|answer|the answer|final answer|the final answer|the answer is|the final answer is|response
    explanation|reasoning|analysis|thinking|thought|thoughts|thought process|my thought process|steps|step by step
    conclusion|here is the answer|here is my answer|here you go|let me think
    let us think|let s think|lets think|let s think step by step|let us think step by step
    let me think step by step|let me think about it|let me think about it step by step
    let me think about this step by step|let s think about it step by step|let s think about this step by step
    let s solve this problem step by step|let us solve this problem step by step|let s solve this step by step
    lösung|antwort|die antwort|ergebnis|erklärung|begründung|respuesta|la respuesta|solución|explicación
    réponse|la réponse|explication|raisonnement|risposta|soluzione|spiegazione|resposta|solução|explicação
    ответ|решение|объяснение|解|解答|解析|解决方案|答案|回答|答|思考过程|かいせつ|解説|答え|こたえ|해설|정답|답변|답
    """.replace("\n", "|").split("|")
)
_OPENINGS_BARE: Final = frozenset(" ".join(opening.split()) for opening in _OPENINGS) - {""}

_NOTHING: Final = frozenset({"n a", "null"})
_tag = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)

_READ: Final = 100_000
"""Maximum characters of a text that are searched for a letter."""

# A letter with a mark that makes it a name: the grade A+, the language C#.
_named = re.compile(r"[A-Za-z](?:\+{1,2}|#)")
# An option of a list: `(B)`, `B)`, `B.`, `B:`.
_option = re.compile(r"(?<![\w.'])(?:[(\[]([A-Za-z])[)\]]|([A-Za-z])(?:[)\]]|[.:](?=\s|$)))")
# A reference that is a single letter, or begins with the letter of the option: `B`, `(B)`, `B. Rome`.
_lettered = re.compile(r"\s*[(\[]?[A-Za-z](?:[)\]]|[.:](?=\s|$)|\s*$)")
_WORDED: Final = frozenset("yes no true false ja nein oui non si sí sì sim não verdadero falso vrai faux".split())  # noqa: SIM905
_AUXILIARIES: Final = {
    "yn": "is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must"
    "|(?:is|are|was|were|do|does|did|has|have|had|ca|could|wo|would|should|must)n['\u2019]t",
    "jn": "ist|sind|war|waren|bin|hat|haben|habe|kann|kannst|können|darf|dürfen|muss|müssen|soll|sollen|wird|werden"
    "|gibt es|gilt|gelten",
    "on": "est-ce|est-il|est-elle|sont-ils|sont-elles|a-t-\\w+|y a-t-il|peut-on|puis-je|dois-je|faut-il",
    "sn": "¿?[^\\S\\n]*+(?:es|son|está|están|hay|puedo|puede|pueden|tiene|tienen|debo|debe|è|sono|posso|può|há|é"
    "|são|pode)",
}
_CHOICES: Final = {
    "yn": r"yes or no|yes\s*/\s*no|y\s*/\s*n",
    "jn": r"ja oder nein|ja\s*/\s*nein|j\s*/\s*n",
    "on": r"oui ou non|oui\s*/\s*non|o\s*/\s*n",
    "sn": r"s[iíì] o no|s[iíì]\s*/\s*no|sim ou não|s\s*/\s*n",
    "tf": r"true or false|true\s*/\s*false|t\s*/\s*f",
}
_yes_or_no = {
    letters: re.compile(
        "|".join(
            filter(
                None,
                (
                    rf"(?:^|[.!?\n][^\S\n]*+)(?:{_AUXILIARIES[letters]})\b" if letters in _AUXILIARIES else "",
                    rf"(?<!\w)(?:{choice})(?!\w)",
                ),
            )
        ),
        re.IGNORECASE,
    )
    for letters, choice in _CHOICES.items()
}
_OR: Final = frozenset("or oder ou o oppure".split())  # noqa: SIM905
_ARTICLES: Final = frozenset("a an the ein eine un une uno una".split())  # noqa: SIM905


def why_trivial(case: Case) -> str:
    """Return why the response of `case` has no content, as the end of a sentence; empty if it has content.

    A response that equals the reference has content. A single letter has content if the question asks for yes or no, if
    the question, the turns before it, the prompt or a document lists it as an option or names it, or if the reference
    is of this kind. A word that usually opens an answer, such as "Solution", has content if the question offers it as
    an alternative.
    """
    words = _words(case.response)
    if not words:
        return "it has no letter and no digit" if case.response.strip() else "it is empty"
    bare = " ".join(words)
    if bare == " ".join(_words(case.expected_response or "")):
        return ""
    if len(bare) == 1 and bare.isascii() and bare.isalpha():
        answers = _named.fullmatch(case.response.strip()) or _is_answer(bare, case)
        return "" if answers else "it is a single letter"
    if bare in _OPENINGS_BARE or bare in _NOTHING:
        said = "it says that there is no answer" if bare in _NOTHING else "it opens an answer that never follows"
        return "" if _offered(words, case) else said
    last = case.response.rstrip(" \t\r\n*_#>`\"'")
    if last.endswith(_COLONS) and len(words) <= _LABEL_WORDS and len(bare) <= _LABEL_CHARACTERS:
        return "it is a heading with nothing below it"
    return ""


def _words(text: str) -> list[str]:
    text = unicodedata.normalize("NFKC", _tag.sub(" ", text) if "<" in text else text)
    return text.translate(_KEPT).casefold().split()


class _WordCharacters(dict[int, str]):
    """A table for `str.translate`: it keeps the characters of words and replaces others with a space.

    It drops characters that are not displayed, such as a soft hyphen, so they do not divide a word.
    """

    def __missing__(self, code: int) -> str:
        kind = unicodedata.category(character := chr(code))
        kept = "" if kind == "Cf" else character if kind[0] in "LNM" else " "
        if len(self) < _CHARACTERS:
            self[code] = kept
        return kept


_KEPT: Final = _WordCharacters()


def _is_answer(letter: str, case: Case) -> bool:
    reference = (case.expected_response or "")[:_READ]
    if _lettered.match(reference) or any(word in _WORDED for word in _words(reference)[:1]):
        return True
    query = case.request.query[:_READ]
    if any(letter in letters and pattern.search(query) for letters, pattern in _yes_or_no.items()):
        return True
    return any(_names(letter, text) for text in _texts(case))


def _texts(case: Case) -> Iterator[str]:
    """Yield the texts of the case that may name a letter."""
    yield case.request.query[:_READ]
    for message in (*case.request.history, *case.prompt):
        yield message.content[:_READ]
    for document in case.retrieved_context:
        yield document.content[:_READ]


def _names(letter: str, text: str) -> bool:
    """Return whether a text lists the letter as one of at least two options, or has it as a word in upper case.

    The English article at the start of a sentence and the pronoun "I" do not count.
    """
    options = {(one[1] or one[2]).casefold() for one in _option.finditer(text)}
    if letter in options and len(options) > 1:
        return True
    if letter == "i":
        return False
    before = r"(?<=[\w,;(/] )" if letter == "a" else r"(?<![\w'\u2019.-])"
    return re.search(rf"{before}{letter.upper()}(?![\w'\u2019-])", text) is not None


def _offered(words: list[str], case: Case) -> bool:
    """Return whether the question offers the words as an alternative: "a mixture or a solution?"."""
    asked = [word for word in _words(case.request.query[:_READ]) if word not in _ARTICLES]
    own = [word for word in words if word not in _ARTICLES]
    size = len(own)
    for at in range(len(asked) - size + 1):
        beside = {*asked[max(at - 1, 0) : at], *asked[at + size : at + size + 1]}
        if asked[at : at + size] == own and beside & _OR:
            return True
    return False

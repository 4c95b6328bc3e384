"""Recognises responses without content by rule: a judge must never see them.

Language models give good scores to a colon, to "Thought process:" or to "Solution" (Zhao et al. 2025, "One Token to
Fool LLM-as-a-Judge", arXiv:2507.08794). A single real word is different: "Paris", "42" and "No" are answers.
"""

from __future__ import annotations

import unicodedata

_LABEL_WORDS, _LABEL_CHARACTERS = 5, 48
_COLONS = (":", "\N{FULLWIDTH COLON}")
# Openings of an answer that never comes, case-folded, without punctuation, in the paper's languages and more.
_OPENINGS = frozenset(
    """
    solution|the solution|answer|the answer|final answer|the final answer|the answer is|the final answer is|response
    explanation|reasoning|analysis|thinking|thought|thoughts|thought process|my thought process|steps|step by step
    conclusion|here is the answer|here is my answer|here you go|let me think
    let us think|let s think|lets think|let s think step by step|let us think step by step
    let s solve this problem step by step|let us solve this problem step by step|let s solve this step by step
    lösung|antwort|die antwort|ergebnis|erklärung|begründung|respuesta|la respuesta|solución|explicación
    réponse|la réponse|explication|raisonnement|risposta|soluzione|spiegazione|resposta|solução|explicação
    ответ|решение|объяснение|解|解答|解析|解决方案|答案|回答|答|思考过程|かいせつ|解説|答え|こたえ|해설|정답|답변|답
    """.replace("\n", "|").split("|")
)


def why_trivial(response: str) -> str:
    """Return why `response` has no content, as the end of a sentence; empty if it has content."""
    kept = (c if unicodedata.category(c)[0] in "LNM" else " " for c in unicodedata.normalize("NFKC", response))
    words = "".join(kept).casefold().split()
    bare = " ".join(words)
    if not words:
        return "it has no letter and no digit" if response.strip() else "it is empty"
    if len(bare) == 1 and bare.isascii() and bare.isalpha():
        return "it is a single letter"
    if bare in _OPENINGS_BARE:
        return "it is the opening of an answer that does not come"
    last = response.rstrip(" \t\r\n*_#>`\"'")
    if last.endswith(_COLONS) and len(words) <= _LABEL_WORDS and len(bare) <= _LABEL_CHARACTERS:
        return "it is a heading with nothing below it"
    return ""


_OPENINGS_BARE = frozenset(" ".join(opening.split()) for opening in _OPENINGS) - {""}

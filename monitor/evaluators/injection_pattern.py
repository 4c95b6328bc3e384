"""Finds attack patterns in the request and the retrieved documents: prompt injection and jailbreaks. No model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from monitor.evaluators._explain import found
from monitor.evaluators._fold import fold
from monitor.evaluators._hidden import encoded, hidden, rotated
from monitor.evaluators._injection import Hit, Place, scan
from monitor.evaluators._text import remembered, windows
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Evidence, Level, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

ATTACK = "request.attack"
"""The attribute of a case that says whether the user's request is an attack: one of the levels."""

_LISTED = 20
_READ = 100_000  # characters of a text
_ENCODED, _TELLING, _RAISED = 0.45, 0.9, 0.4
_SUSPICIOUS, _ATTACK = 0.3, 0.7


class InjectionPattern(Evaluator):
    """Whether the request or a retrieved document contains a known attack pattern, 0 (none) to 1, lower is better.

    In the request: commands to ignore instructions (in about twenty languages), jailbreaks and new roles, extraction of
    the system prompt, of secrets or of other users' data, claims of authority, forged chat turns, split or encoded
    payloads. In documents: the same, and instructions to the assistant, dictated answers, images that exfiltrate data,
    invisible characters, text that is not displayed. It sees through look-alike letters, zero-width characters, digits
    as letters and spaced letters, and decodes base64, hexadecimal, binary, Morse code, shifted and reversed letters.

    Each pattern has a weight. The weights in one text are combined as independent evidence (1 - product of 1 - weight);
    the score is that of the worst text. It sees known phrases, not intent: it misses a polite request that is an attack
    only by the application's rules, and an instruction in a document that reads like an ordinary sentence; it also
    reports a text about prompt injection. Of a text longer than 100,000 characters it reads the first 75,000 and the
    last 25,000. Measured rates are in docs/evaluators/local.md. A case without a question in which nothing is found is
    skipped.
    """

    name: ClassVar[str] = "injection_pattern"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale(
        lowest=0.0,
        highest=1.0,
        better="lower",
        levels=(Level("none", 0.0), Level("suspicious", _SUSPICIOUS), Level("attack", _ATTACK)),
    )
    needs: ClassVar[frozenset[Needs]] = frozenset()
    measures: ClassVar[Measures | None] = "harm"
    default_defect: ClassVar[DefectRule] = DefectRule("at_least", _SUSPICIOUS)
    """`suspicious` or `attack`. If documents are tutorials or about prompts, `{at_least: 0.7}` reports fewer."""
    definition: ClassVar[str] = (
        "our own patterns; the kinds of attack follow OWASP LLM01:2025, https://genai.owasp.org/llmrisk/llm01-prompt-injection/"
    )

    documents: bool = True
    """Whether to search the retrieved documents as well as the request."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped if it has no question and nothing is found in its documents."""
        texts: list[tuple[Place, str, str]] = [("request", "request", case.request.query)]
        if self.documents:
            texts += [
                ("document", f"document {number}", document.content)
                for number, document in enumerate(case.retrieved_context, 1)
            ]
        findings = [
            _Finding(where, hit)
            for place, where, text in texts
            for _, part in windows(text, _READ)
            for hit in (_in_request(part) if place == "request" else _in_document(part))
        ]
        if not findings and not case.request.query.strip():
            return Skipped(SkippedReason.NO_REQUEST)
        values = {where: _together(one.hit for one in findings if one.where == where) for _, where, _ in texts}
        value = max(values.values(), default=0.0)
        telling: dict[tuple[str, str], _Finding] = {}
        for one in sorted(findings, key=lambda one: -one.hit.weight):
            telling.setdefault((one.where, one.hit.family), one)
        listed = list(telling.values())[:_LISTED]
        said = ", ".join(f"{one.hit.family} ({one.where})" for one in listed)
        return Score(
            value,
            f"Found: {said}." if said else "No known attack pattern.",
            self.scale.level(value),
            tuple(one.evidence() for one in listed),
            facts={ATTACK: self.scale.level(values["request"])},
        )


class _Finding(NamedTuple):
    where: str
    hit: Hit

    def evidence(self) -> Evidence:
        return found(self.hit.shown, f"{self.where}: {self.hit.family}")


def _together(hits: Iterable[Hit]) -> float:
    """Combine the strongest hit of each family."""
    weights: dict[str, float] = {}
    for hit in hits:
        weights[hit.family] = max(hit.weight, weights.get(hit.family, 0.0))
    missed = 1.0
    for weight in weights.values():
        missed *= 1.0 - weight
    return round(1.0 - missed, 3)


def _in_request(text: str) -> Iterator[Hit]:
    return _hits(text, "request")


@remembered
def _in_document(text: str) -> tuple[Hit, ...]:
    return tuple(_hits(text, "document"))


def _hits(text: str, place: Place) -> Iterator[Hit]:
    folded = fold(text)
    yield from scan(folded, place)
    moved = rotated(folded)
    if moved:
        yield Hit(f"hidden: {moved.how}", _TELLING, moved.text)
    for one in hidden(text):
        inner = list(_inside(one.text))
        if one.telling or inner:
            weight = _TELLING if one.telling else min(1.0, max(hit.weight for hit in inner) + _RAISED)
            yield Hit(f"hidden: {one.how}", weight, one.text)
    for one in encoded(text):
        weight = _TELLING if any(_inside(one.text)) else _ENCODED
        yield Hit(f"encoded: {one.how}", weight, one.text)


def _inside(text: str) -> Iterator[Hit]:
    """Search a hidden or decoded text: it may address the model from the request or from a document."""
    folded = fold(text)
    yield from scan(folded, "request")
    yield from scan(folded, "document")

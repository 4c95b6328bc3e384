"""Proposes examples for a rubric: answers that people labelled, to be shown to its judge.

propose_examples(config, "groundedness", number=4).rubric

Only answers from the half that never measures the judge (`is_test`) can become examples: answers that a judge has been
shown say nothing about how good it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final

from pydantic import JsonValue

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.label import Label, LabelVerdict, is_test
from monitor.operations.export import collect_results, mask
from monitor.operations.labels import LabelFilter, agreed_labels, stored_labels
from monitor.stages import Evaluator

_LONGEST_RESPONSE: Final = 2_000
_LONGEST_CONTEXT: Final = 6_000
"""Characters of an example: they are paid for with every question to the judge."""

_REASON: Final = 2_000
_DOCUMENTS: Final = 20


@dataclass(frozen=True, slots=True)
class ProposedExample:
    """An answer that became an example: what people and the judge said about it, and the reason."""

    request_id: str
    verdict: LabelVerdict
    judged_defect: bool
    reason: str

    @property
    def judge_erred(self) -> bool:
        """Whether the judge disagreed with people."""
        return self.judged_defect != (self.verdict is LabelVerdict.DEFECT)


@dataclass(frozen=True, slots=True)
class ExampleProposal:
    """A rubric with examples.

    `rubric` is the text of the new file. Of the labelled answers on which people agree, `measuring` measure the judge
    and were left out, and `candidates` could become examples, except for `too_long` that are too long or without texts.
    """

    rubric: str
    examples: Sequence[ProposedExample]
    measuring: int
    candidates: int
    too_long: int


def propose_examples(config: Config, evaluator: str, *, app: str | None = None, number: int = 4) -> ExampleProposal:
    """Choose `number` examples for the rubric of a configured evaluator, from the labels in the storage folder.

    First come answers on which the judge erred, misses and false alarms in turn, then others, so that there are about
    as many good as bad ones; those with a person's comment come first. The same labels give the same examples. Personal
    data is masked.

    Raises `ConfigError` if there is no such rubric, `MonitorError` if no answer can be used.
    """
    rubric = _rubric(config, evaluator)
    if number > rubric.examples_at_most:
        raise ConfigError(f"--number {number}: {evaluator} takes at most {rubric.examples_at_most}")
    labels = stored_labels(config, LabelFilter(app=app, evaluator=evaluator))
    agreed = agreed_labels(labels)
    measuring = {one.result_id for one in labels if one.result_id in agreed and is_test(one.request_id)}
    usable = [one for one in labels if one.result_id in agreed and one.result_id not in measuring]
    usable = [one for one in usable if one.verdict is not LabelVerdict.CANNOT_TELL]
    candidates = {one.result_id for one in usable}
    cases = {row["id"]: row for row in collect_results(config.storage, candidates)} if candidates else {}
    fitting = [one for one in _best_words(usable) if one.result_id in cases and _fits(cases[one.result_id])]
    if not fitting:
        raise MonitorError(
            f"{evaluator}: no labelled answer can become an example: of {len(agreed)} on which people agree,"
            f" {len(measuring)} measure the judge, and {len(candidates)} are too long or no longer have texts"
        )
    chosen = _in_turn(fitting)[:number]
    examples = [_example(one, cases[one.result_id]) for one in chosen]
    return ExampleProposal(
        rubric.with_examples(examples),
        [
            ProposedExample(one.request_id, one.verdict, one.judged_defect, str(example["reason"]))
            for one, example in zip(chosen, examples, strict=True)
        ],
        len(measuring),
        len(candidates),
        len(candidates) - len(fitting),
    )


def _rubric(config: Config, name: str) -> Evaluator:
    known = {one.evaluator.name: one.evaluator for one in config.configured_evaluators}
    if name not in known:
        raise ConfigError(f"--evaluator {name}: not one of {', '.join(sorted(known))}")
    if not known[name].examples_at_most:
        rubrics = ", ".join(sorted(each for each, one in known.items() if one.examples_at_most))
        raise ConfigError(f"--evaluator {name}: is not a rubric, so it takes no examples; rubrics: {rubrics or 'none'}")
    return known[name]


def _best_words(labels: Iterable[Label]) -> list[Label]:
    """Return one label for each result: the one with the longest comment."""
    best: dict[str, Label] = {}
    for one in labels:
        if one.result_id not in best or len(one.comment) > len(best[one.result_id].comment):
            best[one.result_id] = one
    return list(best.values())


def _fits(case: Mapping[str, Any]) -> bool:
    context = sum(len(one["content"]) for one in case["retrieved_context"])
    return len(case["response"]) <= _LONGEST_RESPONSE and context <= _LONGEST_CONTEXT


def _in_turn(labels: Sequence[Label]) -> list[Label]:
    def kind(*, erred: bool, defect: bool) -> list[Label]:
        found = [
            one
            for one in labels
            if (one.verdict is LabelVerdict.DEFECT) == defect and (one.judged_defect != defect) == erred
        ]
        return sorted(found, key=lambda one: (not one.comment, _drawn(one.result_id)))

    def alternately(erred: bool) -> list[Label]:
        pairs = zip_longest(kind(erred=erred, defect=True), kind(erred=erred, defect=False))
        return [one for one in chain.from_iterable(pairs) if one is not None]

    return alternately(erred=True) + alternately(erred=False)


def _drawn(result_id: str) -> bytes:
    return hashlib.blake2b(result_id.encode(), digest_size=8, person=b"example").digest()


def _example(label: Label, case: Mapping[str, Any]) -> dict[str, JsonValue]:
    context: list[JsonValue] = [_writable(one["content"]) for one in case["retrieved_context"][:_DOCUMENTS]]
    return {
        "query": _writable(case["request"]["query"])[:_LONGEST_RESPONSE],
        "context": context,
        "response": _writable(case["response"]),
        "verdict": "defect" if label.verdict is LabelVerdict.DEFECT else "good",
        "level": label.level,
        "reason": _writable(mask(label.comment)[0])[:_REASON],
    }


def _writable(text: str) -> str:
    """Return a text that can be written: an unpaired surrogate, which spans may contain, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()

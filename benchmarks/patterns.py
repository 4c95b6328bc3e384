"""Hit rates, false alarms and cost of the local evaluators.

    python -m benchmarks.patterns --data FOLDER [--half design]
    python -m benchmarks.patterns --speed

FOLDER contains the labelled sets, one JSON object a line with `id`, `question`, `contexts`, `response`, and `label` 1
if the row is an attack or a defect. They are not part of the project:
`safety_purplellama_prompt_injection.jsonl` (PurpleLlama CyberSecEval, MIT: requests in `response`, by `variant` and
`injection_type`), `safety_bipia_attacks.jsonl` (BIPIA, MIT: instructions as they occur in documents, by `category`),
`safety_xstest.jsonl` (XSTest, CC BY 4.0: prompts that look harmful and are not, and their harmful counterparts),
`mtrag_human.jsonl` (mtRAG, Apache-2.0) and `q2_wow.jsonl` (Q2, Apache-2.0).

The patterns were written on one half of every set, `design`; the rates are those of the other, `held_out`. A hash of a
row's id decides its half (for questions and documents of mtRAG and Q2, which occur in several rows, a hash of their
text). A row of the held-out half with a text that is also in the design half is left out, and so are the first ten rows
of every file, which were read to learn its format. An instruction of BIPIA is inserted in the middle of a document of
mtRAG, as in a real attack.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from monitor.evaluators.injection_pattern import InjectionPattern
from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.evaluators.pii_leak import PiiLeak
from monitor.evaluators.refusal_pattern import RefusalPattern
from monitor.evaluators.response_length import ResponseLength
from monitor.evaluators.retrieval_overlap import RetrievalOverlap
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import Outcome, Score
from monitor.stages import Evaluator

Row = dict[str, Any]
_ATTACKS, _INDIRECT = "safety_purplellama_prompt_injection", "safety_bipia_attacks"
_SHOWN = 10
_LOOKALIKES, _CONVERSATIONS, _DIALOGUES = "safety_xstest", "mtrag_human", "q2_wow"


def _in_design(name: str, key: str) -> bool:
    return hashlib.blake2b(f"{name}:{key}".encode(), digest_size=1).digest()[0] % 2 == 0


def _half(folder: Path, name: str, half: str, by: str = "id") -> list[Row]:
    rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    design = [row for row in rows if _in_design(name, row[by])]
    if half == "design":
        return design
    seen = {row["response"] for row in (*design, *rows[:_SHOWN])}
    return [row for row in rows if not _in_design(name, row[by]) and row["response"] not in seen]


def _documents(rows: Iterable[Row], half: str, name: str) -> list[str]:
    """Return the documents of `rows` whose own hash is in `half`: rows of both halves share some documents."""
    texts = dict.fromkeys(text for row in rows for text in row["contexts"])
    return [text for text in texts if _in_design(name, text) == (half == "design")]


def _once(rows: Iterable[Row], text: str) -> list[Row]:
    return list({row[text]: row for row in rows}.values())


def outcome(evaluator: Evaluator, query: str, contexts: Sequence[str] = (), response: str = "It is.") -> Outcome:
    """Return the outcome of `evaluator` for a case."""
    case = Case(
        request_id="1",
        request=Request(query),
        retrieved_context=tuple(map(Document, contexts)),
        response=response,
    )
    return asyncio.run(evaluator.evaluate(case, None))


def _level(evaluator: Evaluator, found: Outcome) -> str:
    return evaluator.scale.level(found.value) if isinstance(found, Score) else "skipped"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} ({part}/{whole})" if whole else "-"


def _table(title: str, groups: dict[str, list[str]], levels: tuple[str, str]) -> Table:
    table = Table(title=title)
    for column in ("what", "rows", levels[1], f"{levels[0]} or {levels[1]}"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, found in groups.items():
        strong, weak = found.count(levels[1]), found.count(levels[0])
        table.add_row(name, str(len(found)), _share(strong, len(found)), _share(strong + weak, len(found)))
    return table


def injection(folder: Path, half: str) -> list[Table]:
    """Return tables of hit rates by variant, and of false alarms."""
    evaluator = InjectionPattern()
    hits: dict[str, list[str]] = defaultdict(list)
    for row in _half(folder, _ATTACKS, half):
        level = _level(evaluator, outcome(evaluator, row["response"]))
        for group in ("all", f"injection type: {row['injection_type']}", row["variant"]):
            hits[group].append(level)
    alarms: dict[str, list[str]] = defaultdict(list)
    for row in _half(folder, _LOOKALIKES, half):
        group = "XSTest, harmful prompts (no injections either)" if row["label"] else "XSTest, safe prompts"
        alarms[group].append(_level(evaluator, outcome(evaluator, row["response"])))
    for name, shown in ((_CONVERSATIONS, "mtRAG"), (_DIALOGUES, "Q2 WoW")):
        rows = _half(folder, name, half, "question")
        alarms[f"{shown}, questions"] = [
            _level(evaluator, outcome(evaluator, row["question"])) for row in _once(rows, "question")
        ]
        alarms[f"{shown}, documents, each alone"] = [
            _level(evaluator, outcome(evaluator, "What is it?", [text])) for text in _documents(rows, half, name)
        ]
    carriers = _documents(_half(folder, _CONVERSATIONS, half), half, _CONVERSATIONS)
    carriers = [text for text in carriers if _level(evaluator, outcome(evaluator, "What is it?", [text])) == "none"]
    indirect: dict[str, list[str]] = defaultdict(list)
    for number, row in enumerate(_half(folder, _INDIRECT, half)):
        carrier = carriers[number % len(carriers)]
        middle = carrier.rfind(" ", 0, len(carrier) // 2 + 1) + 1
        text = f"{carrier[:middle]}\n{row['response']}\n{carrier[middle:]}"
        level = _level(evaluator, outcome(evaluator, "What is it?", [text]))
        indirect["all"].append(level)
        indirect[row["category"]].append(level)
    levels = ("suspicious", "attack")
    return [
        _table(f"injection_pattern, hits on PurpleLlama, {half}", dict(sorted(hits.items())), levels),
        _table(f"injection_pattern, hits on BIPIA, {half}", dict(sorted(indirect.items())), levels),
        _table(f"injection_pattern, false alarms, {half}", alarms, levels),
    ]


def others(folder: Path, half: str) -> list[Table]:
    """Return tables for the other evaluators: what can be measured on sets that were not labelled for them."""
    table = Table(title=f"the others, {half}")
    for column in ("evaluator", "rows", "what", "share"):
        table.add_column(column)
    retrieval = RetrievalOverlap()
    questions = _once(_half(folder, _CONVERSATIONS, half, "question"), "question")
    for what, shift in (("own documents", 0), ("documents of another conversation", 1)):
        values = [
            found.value
            for row in questions
            if isinstance(found := outcome(retrieval, row["question"], _contexts(row, questions, shift)), Score)
        ]
        below = sum(value < retrieval.default_defect.threshold for value in values)
        table.add_row(retrieval.name, f"mtRAG questions, {what}", "below 0.2", _share(below, len(values)))
    for name in (_CONVERSATIONS, _DIALOGUES):
        for evaluator in (RefusalPattern(), PiiLeak(), ResponseLength()):
            answers = _once(_half(folder, name, half), "response")
            levels = [
                _level(evaluator, outcome(evaluator, row["question"], row["contexts"], row["response"]))
                for row in answers
            ]
            for level in dict.fromkeys(sorted(levels)):
                table.add_row(evaluator.name, f"{name} answers", level, _share(levels.count(level), len(levels)))
    return [table]


def _contexts(row: Row, rows: Sequence[Row], shift: int) -> list[str]:
    """Return the row's own documents, or those of the next row of another conversation."""
    if not shift:
        return list(row["contexts"])
    at = rows.index(row)
    following = [*rows[at + 1 :], *rows[:at]]
    return next(list(one["contexts"]) for one in following if one["group"] != row["group"])


_QUESTION = "How long may books be kept, and what does the library card cost for a child of seven years?"
_SENTENCE = "Books may be kept for three weeks; a card costs 12.50 euros a year, for children under 14 nothing at all. "
_CASES = {
    "normal: 3 documents of 1,500 characters, answer of 600": (_QUESTION, 3, 1_500, 600),
    "large: 20 documents of 4,000 characters, answer of 4,000": (_QUESTION, 20, 4_000, 4_000),
    "huge: one document and an answer of 200,000 characters": (_QUESTION, 1, 200_000, 200_000),
}


def speed() -> list[Table]:
    """Return the milliseconds per case, as median of several repeats."""
    table = Table(title="milliseconds a case, one core, median")
    table.add_column("evaluator")
    for name in _CASES:
        table.add_column(name, justify="right")
    for evaluator in (
        OverlapGroundedness(), RetrievalOverlap(), RefusalPattern(), InjectionPattern(), PiiLeak(), ResponseLength(),
    ):  # fmt: skip
        cells = []
        for query, count, size, answer in _CASES.values():
            case = Case(
                request_id="1",
                request=Request(query),
                retrieved_context=(Document((_SENTENCE * (size // len(_SENTENCE) + 1))[:size]),) * count,
                response=(_SENTENCE * (answer // len(_SENTENCE) + 1))[:answer],
            )
            cells.append(f"{_milliseconds(evaluator, case):.2f}")
        table.add_row(evaluator.name, *cells)
    return [table]


def _milliseconds(evaluator: Evaluator, case: Case) -> float:
    taken = []
    until = time.perf_counter() + 0.5
    while not taken or time.perf_counter() < until:
        began = time.perf_counter()
        steps = evaluator.evaluate(case, None).__await__()
        try:
            next(steps)
        except StopIteration:
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the labelled sets")
    parser.add_argument("--half", choices=["design", "held_out"], default="held_out")
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    if not arguments.speed and arguments.data is None:
        parser.error("--data or --speed is needed")
    console = Console(width=130)
    tables = speed() if arguments.speed else []
    if arguments.data is not None:
        tables += [*injection(arguments.data, arguments.half), *others(arguments.data, arguments.half)]
    for table in tables:
        console.print(table)


if __name__ == "__main__":
    main()

"""How many prompt tokens are saved by asking several rubrics in one call.

    python -m benchmarks.panels ROWS.jsonl [--rubrics groundedness,relevance,...] [--limit 200]

Rows with `question`, `contexts` and `response`. Prompts are those that the judge would send, counted with the tokeniser
that litellm includes (cl100k). "Begin alike" is the share of the tokens of separate calls that repeats the beginning of
another prompt about the same case: providers that cache prompt prefixes charge less for these.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from monitor import registry
from monitor.errors import JudgeError
from monitor.judge import codec
from monitor.judge.codec import RequestForm
from monitor.judge.grouped_judge import merged
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import UnscoredReason
from monitor.stages import Evaluator, Question
from monitor.testing import ScriptedJudge

_GROUPS = (
    "groundedness,relevance",
    "groundedness,relevance,completeness,coherence",
    "hate_unfairness,sexual,violence,self_harm",
)


def cases(path: Path, limit: int) -> Iterator[Case]:
    """Yield the first rows of a file."""
    with path.open(encoding="utf-8") as lines:
        for number, line in zip(range(limit), lines, strict=False):
            row = json.loads(line)
            context = tuple(Document(text) for text in row["contexts"])
            yield Case(
                request_id=f"{number:032x}",
                request=Request(row["question"]),
                retrieved_context=context,
                response=row["response"],
            )


def questions(evaluators: Sequence[Evaluator], case: Case) -> list[Question]:
    """Return the question of each evaluator about a case; an evaluator that decides by rule has none."""
    asked: list[Question] = []

    def note(question: Question) -> JudgeError:
        asked.append(question)
        return JudgeError(UnscoredReason.SHUTDOWN, "only the question is wanted")

    for one in evaluators:
        try:
            asyncio.run(one.evaluate(case, ScriptedJudge(note)))
        except JudgeError:
            continue
    return asked


def beginning(one: str, other: str) -> str:
    """Return the common prefix of two texts."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:at]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--rubrics", action="append", help="a group, comma separated; may be given several times")
    parser.add_argument("--limit", type=int, default=200)
    chosen = parser.parse_args()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm  # noqa: PLC0415 - seconds

    def tokens(text: str) -> int:
        return len(litellm.encoding.encode(text, disallowed_special=()))

    def sent(question: Question) -> str:
        return "\n".join(
            message["content"]
            for message in codec.encode(question, b"benchmark", RequestForm(question.max_tokens)).messages
        )

    found = list(cases(chosen.rows, chosen.limit))
    print(f"{len(found)} cases of {chosen.rows.name}; tokens of the prompt a case, mean\n")
    print(f"{'rubrics':58}{'apart':>8}{'one call':>10}{'saved':>8}{'begin alike':>13}")
    for group in chosen.rubrics or _GROUPS:
        names = group.split(",")
        evaluators = [registry.read("evaluators", {"type": name}, Evaluator, name) for name in names]
        apart = together = alike = 0
        for case in found:
            asked = questions(evaluators, case)
            prompts = [sent(question) for question in asked]
            apart += sum(map(tokens, prompts))
            together += tokens(sent(merged(asked))) if len(asked) > 1 else sum(map(tokens, prompts))
            alike += sum(tokens(beginning(prompts[0], prompt)) for prompt in prompts[1:])
        shown = (apart / len(found), together / len(found), 1 - together / apart, alike / apart)
        print(f"{', '.join(names):58}{shown[0]:8.0f}{shown[1]:10.0f}{shown[2]:8.0%}{shown[3]:13.0%}")


if __name__ == "__main__":
    main()

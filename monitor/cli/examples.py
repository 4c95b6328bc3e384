"""`rag-monitor examples`: a rubric with examples from people's labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import clean, echo_lines, exit_status_1, report, writing
from monitor.operations.examples import ExampleProposal, propose_examples


def examples(
    *,
    evaluator: Annotated[
        str,
        typer.Option("--evaluator", "-e", autocompletion=_options.complete_evaluators, help="The evaluator, a rubric."),
    ],
    app: Annotated[
        str | None, typer.Option("--app", callback=_options.app, help="Use only labels of this service.")
    ] = None,
    number: Annotated[int, typer.Option("--number", min=1, metavar="N", help="How many examples to choose.")] = 4,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.md", help="Write the rubric to this file.")
    ] = None,
    config: _options.ConfigPath = None,
) -> None:
    """Propose examples for a judge, chosen from the answers that people labelled: a new version of its rubric.

    Answers that measure the judge are never chosen. Try the file with `rag-monitor try` and `rag-monitor benchmark`
    before you put it into the configuration. Exit status 1: there is no labelled answer that can be used.
    """
    settings = configuration.load(config)
    with exit_status_1():
        found = propose_examples(settings, evaluator, app=app, number=number)
    if output is None:
        typer.echo(found.rubric, nl=False)
    else:
        with writing("--output", output):
            output.touch(mode=0o600)
            output.write_text(found.rubric, encoding="utf-8")
        echo_lines(_lines(found, evaluator, output))


def _lines(found: ExampleProposal, evaluator: str, output: Path) -> Iterator[str]:
    yield f"Examples: {len(found.examples)}. Labelled answers that may be shown to a judge: {found.candidates}."
    yield f"Left out, because they measure the judge: {found.measuring}."
    if found.too_long:
        yield f"Too long, or their texts are no longer kept: {found.too_long}."
    yield ""
    for one in found.examples:
        judge = "the judge erred" if one.judge_erred else "the judge agreed"
        yield f"  {one.verdict:<6}  {clean(one.request_id)}, {judge}" + (f": {clean(one.reason)}" * bool(one.reason))
    yield ""
    yield f"Written to {output}. To use it, put this in place of the entry of {evaluator}:"
    yield f"  - {{type: rubric, file: {output}, replaces: true}}   # `replaces` only for a built-in evaluator"
    report("The file quotes users' texts, masked. Read it before you share it.")

"""`rag-monitor labels`: people's labels of answers, from and to files and the servers on which people label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import align, clean, echo_json, echo_lines, exit_status_1, report, writing
from monitor.clock import SystemClock
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.model.label import LabelVerdict
from monitor.operations import labels as operation
from monitor.operations.labels import LabelFilter, LabelImport
from monitor.operations.labels.drawing import draw_cases
from monitor.operations.labels.judging import JudgeReport, in_words, judge_reports
from monitor.operations.labels.reading import VerdictWords, read_labels
from monitor.operations.labels.server import SentLabels
from monitor.operations.labels.writing import LabelFormat
from monitor.quantities import number_of, parse_duration, percent
from monitor.statistics.correction import ShareInterval
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.rates import Estimate
from monitor.statistics.review import Kappa
from monitor.storage.labels import LabelCount

Server = Literal["langfuse", "phoenix", "mlflow"]
_PROBLEMS_SHOWN: Final = 20


def labels(
    *,
    read: Annotated[Path | None, typer.Option("--import", metavar="FILE", help="Read labels from this file.")] = None,
    write: Annotated[Path | None, typer.Option("--export", metavar="FILE", help="Write the labels to a file.")] = None,
    draw: Annotated[
        int | None,
        typer.Option(
            "--draw",
            min=1,
            max=1000,
            metavar="N",
            help="With --export: write N answers that still need labels instead.",
        ),
    ] = None,
    pull: Annotated[Server | None, typer.Option("--pull", help="Read labels from this server.")] = None,
    push: Annotated[Server | None, typer.Option("--push", help="Write the labels to this server.")] = None,
    form: Annotated[
        LabelFormat, typer.Option("--format", help="The format to write. Reading needs no format.")
    ] = LabelFormat.JSONL,
    app: Annotated[str | None, typer.Option("--app", callback=_options.app, help="Only this service.")] = None,
    evaluator: Annotated[
        str | None,
        typer.Option("--evaluator", "-e", autocompletion=_options.complete_evaluators, help="Only this evaluator."),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="With --pull: answers judged in this period.")
    ] = "30d",
    reviewer: Annotated[str, typer.Option("--reviewer", help="Who labelled, if the file does not say.")] = "",
    good: Annotated[list[str] | None, typer.Option("--good", help="An answer of the tool that means good.")] = None,
    defect: Annotated[
        list[str] | None, typer.Option("--defect", help="An answer of the tool that means defect.")
    ] = None,
    below: Annotated[
        float | None, typer.Option("--defect-below", help="Numbers below this mean defect, others good.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What the server calls the label. Default: the evaluator.")] = "",
    queue: Annotated[str, typer.Option("--queue", help="Id of an annotation queue of Langfuse.")] = "",
    project: Annotated[str, typer.Option("--project", help="Project of Phoenix.")] = "default",
    redaction: Annotated[
        bool, typer.Option("--redaction/--no-redaction", help="Mask personal data and secrets in exported texts.")
    ] = True,
    judge: Annotated[
        bool, typer.Option("--judge", help="Print how good judges are by the labels, and where they err.")
    ] = False,
    config: _options.ConfigPath = None,
    as_json: _options.Json = False,
) -> None:
    """Count the labels that people gave, import them, or export them.

    --import reads JSON Lines, CSV, and the JSON of Argilla and Label Studio. --draw N with --export, --app and
    --evaluator draws answers so that their labels measure the judge. --pull and --push use the address and key of the
    configured sink `langfuse`, `phoenix` or `mlflow`. --push langfuse --queue puts the judged answers into an
    annotation queue. --judge prints sensitivity, specificity, kappa and what errors have in common, like the review
    page. Importing a file twice changes nothing. Exit status 1: something could not be read or sent.
    """
    chosen = [one for one in (read, write, pull, push, judge or None) if one is not None]
    if len(chosen) > 1:
        raise typer.BadParameter("choose one of --import, --export, --pull, --push and --judge")
    if queue and "langfuse" not in (pull, push):
        raise typer.BadParameter("needs --pull langfuse or --push langfuse", param_hint="--queue")
    if draw is not None and (write is None or app is None or evaluator is None):
        raise typer.BadParameter("needs --export, --app and --evaluator", param_hint="--draw")
    settings = configuration.load(config)
    window = _options.read("--since", parse_duration, since)
    recent = LabelFilter(app=app, evaluator=evaluator, since=SystemClock().now() - window)
    every = LabelFilter(app=app, evaluator=evaluator)
    words = VerdictWords(good=tuple(good or ()), defect=tuple(defect or ()), below=below)
    with exit_status_1():
        if read is not None:
            file = read_labels(_content(read), words, name=read.name)
            _imported(operation.import_labels(settings, file, every, reviewer=reviewer), as_json=as_json)
        elif write is not None and draw is not None and app is not None and evaluator is not None:
            cases = draw_cases(settings, app, evaluator, draw, SystemClock(), redact=redaction)
            _save(write, operation.export_tasks(form, cases))
            report(f"answers to label: {len(cases)}, written to {write}")
        elif write is not None:
            text, number = operation.export_labels(settings, form, every, redact=redaction)
            _save(write, text)
            report(f"labels: {number}, written to {write}")
        elif pull is not None:
            server = operation.open_server(settings, pull, name=name, queue=queue, project=project)
            _imported(operation.pull_labels(settings, server, recent, words), as_json=as_json)
        elif push is not None:
            server = operation.open_server(settings, push, name=name, queue=queue, project=project)
            _sent(operation.push_labels(settings, server, recent if queue else every), push)
        else:
            _report(settings, every, judge=judge, as_json=as_json)


def _report(settings: Config, wanted: LabelFilter, *, judge: bool, as_json: bool) -> None:
    """Print how good judges are, or how many labels there are."""
    if judge:
        found = judge_reports(settings, wanted, SystemClock())
        if as_json:
            echo_json([one.as_object() for one in found])
        else:
            echo_lines(_judges(found))
        return
    counts = operation.label_counts(settings)
    if as_json:
        echo_json([one._asdict() for one in counts])
    else:
        echo_lines(_table(counts))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--import: cannot read {path}: {error.strerror}") from None


def _save(path: Path, text: str) -> None:
    with writing("--export", path):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def _imported(found: LabelImport, *, as_json: bool) -> None:
    if as_json:
        echo_json(asdict(found))
    else:
        notes = [f"labels: {found.read}", f"new: {found.new}", f"changed: {found.changed}"]
        notes.append(f"already known: {found.unchanged}")
        notes += [f"not labelled yet: {found.unlabelled}"] if found.unlabelled else []
        notes += [f"of erased requests: {found.forgotten}"] if found.forgotten else []
        echo_lines(["; ".join(notes)])
    _problems(found.problems)


def _sent(sent: SentLabels, server: str) -> None:
    notes = [f"sent to {server}: {sent.labels}"] if not sent.queued else [f"answers queued: {sent.queued}"]
    notes += [f"without a trace there: {sent.without_trace}"] if sent.without_trace else []
    echo_lines(["; ".join(notes)])
    _problems(sent.problems)


def _problems(problems: Sequence[str]) -> None:
    for problem in problems[:_PROBLEMS_SHOWN]:
        report(clean(problem))
    if len(problems) > _PROBLEMS_SHOWN:
        report(f"... and {len(problems) - _PROBLEMS_SHOWN} more")
    if problems:
        raise typer.Exit(1)


def _table(counts: Sequence[LabelCount]) -> Iterator[str]:
    if not counts:
        yield "No labels yet."
        return
    sums: Counter[tuple[str, str, str, LabelVerdict]] = Counter()
    for one in counts:
        sums[one.app, one.evaluator, one.version, one.verdict] += one.labels
    rows = [["app", "evaluator", "version", *(one.value.replace("_", " ") for one in LabelVerdict)]]
    rows += [
        [*map(clean, subject), *(str(sums[(*subject, one)]) for one in LabelVerdict)]
        for subject in sorted({key[:3] for key in sums})
    ]
    yield from align(rows)


def _judges(found: Sequence[JudgeReport]) -> Iterator[str]:
    if not found:
        yield "No labels that measure a judge yet."
    for number, one in enumerate(found):
        if number:
            yield ""
        said, errors = one.measure, one.errors
        labels = number_of(said.labels, "label")
        yield f"{clean(one.app)}, {said.evaluator} (version {clean(said.version)}): measured by {labels}"
        yield f"  finds defects (sensitivity)             {_share(said.sensitivity)}"
        yield f"  passes good answers (specificity)       {_share(said.specificity)}"
        yield f"  agrees with people (Cohen's kappa)      {_kappa(said.with_people)}"
        yield f"  people agree with people (kappa)        {_kappa(said.of_people)}"
        yield f"  errors in {errors.answers} labelled answers: {errors.missed} missed, {errors.alarmed} false alarms"
        for place, factor in enumerate(errors.factors, start=1):
            name = " and ".join(map(_named, factor.parts))
            yield f"  {place}. {name}: wrong {_limited(factor.inside)}, elsewhere {_limited(factor.outside)}"
            if factor.likewise:
                yield f"     Most of these errors also have: {', '.join(map(_named, factor.likewise[:3]))}"
        if errors.missed + errors.alarmed and not errors.factors:
            yield "  These errors have nothing in common beyond what chance explains."


def _named(factor: Factor) -> str:
    return clean(in_words(factor))


def _share(one: ShareInterval | None) -> str:
    return f"{percent(one.value)} ({percent(one.lower)} to {percent(one.upper)})" if one is not None else "-"


def _kappa(one: Kappa | None) -> str:
    return f"{one.value:.2f} ({one.lower:.2f} to {one.upper:.2f})" if one is not None else "-"


def _limited(one: Estimate) -> str:
    return f"{percent(one.rate)} ({percent(one.lower)} to {percent(one.upper)})"

"""`rag-monitor cases`: what the monitor reads from recorded telemetry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import report
from monitor.cli.console.progress import Bars
from monitor.extraction.provenance import FIELDS, FieldOrigin, Provenance, Unused
from monitor.model.case import Case, ContextStatus, Document, Reading
from monitor.operations.offline.files import CaseFiles

_MAX_TEXT: Final = 70  # characters of a text that are shown
_MAX_ERROR: Final = 200  # characters of an error: some are whole stack traces
_MAX_UNUSED: Final = 12  # lines about values that were not used
_MAX_SPANS: Final = 12
_WIDTH: Final = 10
_NO_DOCUMENTS: Final = {
    ContextStatus.RETRIEVED_NOTHING: "none: the retrieval found nothing",
    ContextStatus.NOT_RECORDED: "not recorded: there was a retrieval, but its documents were not sent",
}
_READ_AS: Final = {
    "query": "a question",
    "documents": "documents",
    "response": "an answer",
    "": "a text that no dialect reads",
}


def cases(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files or folders: .pb, .logs.pb and .json captures; rows as .jsonl, .json, .csv or .tsv.",
        ),
    ],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show in words where each field comes from, and what was not used.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --explain: one JSON object per case. Without it, that is the default.")
    ] = False,
    config: ConfigPath = None,
) -> None:
    """Print what is read from captured OTLP and from rows, as one JSON object per case.

    Rows come first, in their order, then traces in the order of first arrival. A folder is read in name order. Exit
    status 1 when a file or row could not be read; the others are still printed.
    """
    settings = configuration.load(config).extraction
    with Bars(beside_output=True).reading(paths) as advance:
        files = CaseFiles(paths, settings, report=report, advance=advance)
        if explain:
            for found in files.explanations():
                typer.echo(to_json(found) if as_json else "\n".join(lines(found)) + "\n")
        else:
            for reading in files.readings():
                typer.echo(json.dumps(reading.as_row(), ensure_ascii=False))
    if files.unreadable:
        raise typer.Exit(1)


def to_json(found: Provenance) -> str:
    """Return one JSON object: the case as a row, the origins of its fields, and what was not used."""
    origins = {name: [asdict(one) for one in found.origins.get(name, ())] for name in _fields(found)}
    unused = [asdict(one) for one in found.unused]
    return json.dumps({"case": found.reading.as_row(), "origins": origins, "unused": unused}, ensure_ascii=False)


def lines(found: Provenance) -> Iterator[str]:
    """Yield an explanation in words: each field, where it comes from, and what was not used."""
    reading = found.reading
    error = " ".join(reading.error.split())
    error = f": {error[:_MAX_ERROR]}{'...' if len(error) > _MAX_ERROR else ''}" if error else ""
    yield f"{reading.case.request_id}  {reading.status}{error}"
    if reading.case.request_id != reading.case.trace_id and reading.joined:
        yield f"  {'spans':{_WIDTH}}{_spans(reading)}"
    for field in _fields(found):
        value, origins = _value(reading.case, field), found.origins.get(field, ())
        if not value and not origins:
            if field in ("question", "context", "answer", "model"):
                yield f"  {field:{_WIDTH}}-"
            continue
        yield f"  {field:{_WIDTH}}{' ' * (len(field) >= _WIDTH)}{value or '-'}"
        for origin in _merged(origins):
            yield f"  {'':{_WIDTH}}  from {origin}"
    if found.unused:
        yield "  not used:"
        for one in islice(found.unused, _MAX_UNUSED):
            yield f"    {_unused(one)}"
        if len(found.unused) > _MAX_UNUSED:
            yield f"    and {len(found.unused) - _MAX_UNUSED} more"


def _fields(found: Provenance) -> Iterable[str]:
    """Return the fields to explain: rows have more than traces."""
    return dict.fromkeys((*FIELDS, *found.origins))


def _spans(reading: Reading) -> str:
    """Return the spans of one request of several in a trace."""
    shown = [f"{one.name} {one.span_id}" for one in reading.joined[:_MAX_SPANS]]
    more = len(reading.joined) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _value(case: Case, field: str) -> str:
    """Show a field of a case in one line; empty if it has none."""
    usage = case.usage
    counts = (("in", usage.input_tokens), ("out", usage.output_tokens), ("in total", usage.total_tokens))
    shown = {
        "question": _quoted(case.request.query),
        "history": f"{len(case.request.history)} turns" if case.request.history else "",
        "context": _context(case),
        "answer": _quoted(case.response),
        "model": case.model,
        "usage": ", ".join(f"{number} {name}" for name, number in counts if number is not None),
        "session": case.session_id,
        "user": case.user_id,
        "reference": _quoted(case.expected_response or ""),
        "expected": _documents(case.expected_retrieved_context or ()),
        "prompt": _quoted(" ".join(one.content for one in case.prompt)),
        "app": case.app,
        "attributes": _quoted(", ".join(f"{key}={value}" for key, value in case.attributes.items())),
        "time": f"{case.answered_at:.15g} seconds since 1970" if case.answered_at else "",
    }
    return shown[field]


def _context(case: Case) -> str:
    """Show the documents, or in words why there are none."""
    if not case.retrieved_context and case.context_status in _NO_DOCUMENTS:
        return _NO_DOCUMENTS[case.context_status]
    return _documents(case.retrieved_context, " taken from the prompt" * (case.context_source == "prompt"))


def _documents(found: Sequence[Document], whence: str = "") -> str:
    if not found:
        return ""
    first = found[0]
    shown = _quoted(first.content) or f"no text, {first.doc_uri or first.doc_id or 'no address'}"
    return f"{len(found)} document{'s' if len(found) > 1 else ''}{whence}: {shown}"


def _quoted(text: str) -> str:
    folded = " ".join(text.split())
    return f'"{folded[:_MAX_TEXT]}{"..." if len(folded) > _MAX_TEXT else ""}"' if folded else ""


def _merged(origins: Sequence[FieldOrigin]) -> list[str]:
    """Return the origins in words; those that differ only in the span are merged."""
    spans: dict[tuple[str, str, str], list[str]] = {}
    for one in origins:
        spans.setdefault((one.convention, one.span_name, ", ".join(one.keys)), []).append(one.span_id)
    return [
        f"{convention or 'no dialect'}, span {name!r} {ids[0]}{f' and {len(ids) - 1} more' if ids[1:] else ''}: {keys}"
        if ids[0]
        else f"{convention}: {keys}"  # a row
        for (convention, name, keys), ids in spans.items()
    ]


def _unused(one: Unused) -> str:
    if not one.origin.span_id:  # a row
        return f"{', '.join(one.origin.keys)[:_MAX_TEXT]} ({one.size} character{'s' if one.size > 1 else ''})"
    where = f"span {one.origin.span_name!r}" + (f" and {one.spans - 1} more" if one.spans > 1 else "")
    return f"{_READ_AS[one.said]} of {one.size} characters in {where}: {', '.join(one.origin.keys)}"

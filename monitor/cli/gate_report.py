"""The answer of a release gate: lines for people, JSON for machines, JUnit for build servers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import orjson

from monitor.cli.console.text import percent
from monitor.cli.gated import EXIT_STATUS, Check, Report
from monitor.errors import ConfigError
from monitor.statistics.gating import MOST_MORE, Answer

_WORDS: Final = {Answer.PASS: "pass", Answer.FAIL: "FAIL", Answer.NOT_ENOUGH_DATA: "not enough data"}


def lines(found: Report) -> Iterator[str]:
    """One line for each check, then what is odd, then the answer."""
    for one in found.checks:
        yield f"{_WORDS[one.decision.answer]}: {_title(one)}: {_told(one)}"
    for note in found.notes:
        yield f"note: {note}"
    yield f"gate: {_WORDS[found.answer]}"


def as_json(found: Report) -> str:
    """One JSON object; rates are shares, null where nothing is known or where there is no limit above."""
    whole = {
        "answer": found.answer.value,
        "exit_status": EXIT_STATUS[found.answer],
        "checks": [_object(one) for one in found.checks],
        "notes": list(found.notes),
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()


def write_junit(found: Report, path: Path) -> None:
    """A test case for each check: a failure where it fails, an error where there is not enough data.

    Raises `ConfigError` where the file cannot be written.
    """
    answers = [one.decision.answer for one in found.checks]
    counts = {"failures": answers.count(Answer.FAIL), "errors": answers.count(Answer.NOT_ENOUGH_DATA)}
    attributes = {"name": "rag-monitor gate", "tests": str(len(answers)), **{k: str(v) for k, v in counts.items()}}
    suite = ET.Element("testsuite", attributes)
    for one in found.checks:
        case = ET.SubElement(suite, "testcase", {"classname": f"rag-monitor.gate.{one.kind}", "name": _title(one)})
        if one.decision.answer is not Answer.PASS:
            tag = "failure" if one.decision.answer is Answer.FAIL else "error"
            ET.SubElement(case, tag, {"type": one.decision.answer.value, "message": _told(one)})
        ET.SubElement(case, "system-out").text = _told(one)
    try:
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ConfigError(f"--junit: {path} cannot be written: {error.strerror}") from None


def _title(one: Check) -> str:
    version = f" {one.version}" if one.version else ""
    limit = f"below {percent(one.limit)}" if one.kind == "rate" else f"less than {one.limit:g} times as high"
    return _clean(f"{one.app or 'all apps'}, {one.evaluator}{version}: {limit}")


def _told(one: Check) -> str:
    decision = one.decision
    judged = f"{one.now.judged} judged, {one.now.defects} defective"
    if one.base is not None:
        judged += f"; {one.against}: {one.base.judged} judged, {one.base.defects} defective"
    if decision.value is None or decision.lower is None or decision.upper is None:
        return _clean(f"{judged}; {_more(one)}")
    shown = (_shown(one, value) for value in (decision.value, decision.lower, decision.upper))
    value, lower, upper = shown
    name = "rate" if one.kind == "rate" else "ratio"
    more = f"; {_more(one)}" if decision.answer is Answer.NOT_ENOUGH_DATA else ""
    return _clean(f"{name} {value} ({lower} to {upper}); {judged}{more}")


def _more(one: Check) -> str:
    if one.decision.more is not None:
        least = "if all are good" if not one.now.judged else "if they are like these"
        return f"{one.decision.more} more judged answers would decide, {least}"
    if one.base is not None and not one.base.judged:
        return "nothing to compare with"
    if one.base is not None and not one.base.defects:
        return "without a defect to compare with no ratio is bounded"
    return f"not even {MOST_MORE:,} more like these would decide"


def _shown(one: Check, value: float) -> str:
    if one.kind == "rate":
        return percent(value)
    return "unlimited" if math.isinf(value) else f"{value:.2f}"


def _object(one: Check) -> dict[str, Any]:
    decision, base = one.decision, one.base
    return {
        "kind": one.kind,
        "app": one.app,
        "evaluator": one.evaluator,
        "version": one.version,
        "answer": decision.answer.value,
        "limit": one.limit,
        **{name: _finite(getattr(decision, name)) for name in ("value", "lower", "upper")},
        "more": decision.more,
        "judged": one.now.judged,
        "defects": one.now.defects,
        "base": None if base is None else {"judged": base.judged, "defects": base.defects, "of": one.against},
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _clean(text: str) -> str:
    """Names come from outside: no control characters, which neither XML nor a terminal takes well."""
    return "".join(one if one.isprintable() else "?" for one in text)

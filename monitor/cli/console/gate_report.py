"""The decision of a gate as an exit status, a JSON object and a JUnit report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from monitor.cli.console.output import writing
from monitor.operations.gate import Check, Report
from monitor.statistics.gating import GateDecision

EXIT_STATUS: Final = {
    GateDecision.PASS: 0,
    GateDecision.FAIL: 1,
    GateDecision.NOT_ENOUGH_DATA: 3,
    GateDecision.NOT_JUDGED: 4,
}


def as_object(report: Report) -> dict[str, Any]:
    """Return a JSON object. Rates are shares, null if unknown or if the limit is infinite."""
    return {
        "answer": report.answer.value,
        "exit_status": EXIT_STATUS[report.answer],
        "checks": [_check(one) for one in report.checks],
        "notes": list(report.notes),
    }


def write_junit(report: Report, path: Path) -> None:
    """Write one test case for each check: a failure if it fails, an error if it is undecided."""
    answers = [one.decision.answer for one in report.checks]
    undecided = len(answers) - answers.count(GateDecision.PASS) - answers.count(GateDecision.FAIL)
    counts = {"tests": len(answers), "failures": answers.count(GateDecision.FAIL), "errors": undecided}
    suite = ET.Element("testsuite", {"name": "rag-monitor gate", **{name: str(n) for name, n in counts.items()}})
    for one in report.checks:
        case = ET.SubElement(suite, "testcase", {"classname": f"rag-monitor.gate.{one.kind}", "name": one.title})
        if one.decision.answer is not GateDecision.PASS:
            tag = "failure" if one.decision.answer is GateDecision.FAIL else "error"
            ET.SubElement(case, tag, {"type": one.decision.answer.value, "message": one.result})
        ET.SubElement(case, "system-out").text = one.result
    with writing("--junit", path):
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _check(one: Check) -> dict[str, Any]:
    decision, base = one.decision, one.base
    limits = {"value": decision.value, "lower": decision.lower, "upper": decision.upper}
    return {
        "kind": one.kind,
        "app": one.app,
        "evaluator": one.evaluator,
        "version": one.version,
        "rule": one.rule or None,
        "answer": decision.answer.value,
        "limit": one.limit,
        **{name: None if value is None or math.isinf(value) else value for name, value in limits.items()},
        "more": decision.more,
        "evaluated": one.now.judged,
        "defects": one.now.defects,
        "base": None if base is None else {"evaluated": base.judged, "defects": base.defects, "of": one.against},
    }

"""Handmade incidents, as a monitor stores them."""

from __future__ import annotations

from pathlib import Path

from monitor.clock import ManualClock
from monitor.model.incident import (
    FiredAlert,
    Incident,
    IncidentAnswer,
    IncidentEnd,
    IncidentNote,
    IncidentStep,
    RatePeak,
)
from monitor.storage.incidents import IncidentFile

FIRED = 1_700_000_000.0


def keep_incident(folder: Path, name: str, text: str = "", *, open_: bool = False) -> Incident:
    """Store an incident with one of everything. The untrusted `text` is in each of its texts."""
    one = Incident(
        id=name,
        app=text or "shop",
        evaluator="overlap_groundedness",
        defect_rule=text,
        version="1",
        fired=FIRED,
        checked=FIRED + 600,
        severity="warning",
        worst="critical",
        alerts=(FiredAlert("RagDefectRateHigh", "warning", 0.05), FiredAlert("RagDefectRateHigh", "critical", 0.15)),
        peak=RatePeak(FIRED + 60, 0.31, 0.24, 0.39, 420, 130, 3600.0),
        steps=(
            IncidentStep(FIRED, f"RagDefectRateHigh (warning) fires. {text}"),
            IncidentStep(FIRED + 60, "RagDefectRateHigh (critical) fires: 31 % of the answers are bad."),
        ),
        ended=None if open_ else FIRED + 1800,
        end=None if open_ else IncidentEnd.FELL_BACK,
    )
    answers = [
        IncidentAnswer(
            request_id=text or f"{number:032x}",
            at=FIRED + number,
            score=0.1 * number,
            level=text or "ungrounded",
            question=text or "How long is the label valid?",
            response=text or "A label is valid for six months.",
            explanation=text or "The context says 30 days.",
        )
        for number in range(2)
    ]
    file = IncidentFile(folder / "incidents.db", ManualClock(FIRED))
    file.save(one)
    impact = {"since": FIRED - 900, "until": FIRED + 1800, "judged": 900, "defects": 250}
    impact |= {"answers": 9000.0, "bad_answers": 2500.0, "bad_lower": 2200.0, "bad_upper": 2800.0}
    file.keep_finding(name, "impact", impact)
    file.keep_finding(name, "onset", {"at": FIRED - 900, "earliest": FIRED - 1200, "latest": FIRED - 700})
    file.keep_finding(name, "changes", {"steps": [{"at": FIRED - 1000, "text": text or "prompt 3 -> 4"}]})
    for moment in ("height", "end"):
        file.keep_finding(name, moment, {"lines": [f"Since 21:58 UTC. 71 % of the rise: tenant = acme. {text}"]})
    file.keep_answers(name, answers)
    file.note(name, IncidentNote(FIRED + 120, text[:100] or "user anna", text[:4000] or "The index was empty."))
    file.close()
    return one

"""An incident in plain text and as the draft of a post-mortem: all of it is there, and no text of others is markup."""

from __future__ import annotations

import re
from dataclasses import replace

from monitor.cli.console.incident_report import markdown, rows, text
from monitor.model.incident import (
    FiredAlert,
    Incident,
    IncidentAnswer,
    IncidentEnd,
    IncidentImpact,
    IncidentNote,
    IncidentOnset,
    IncidentRecord,
    IncidentStep,
    RatePeak,
)

NOW = 1_700_010_000.0
FIRED = 1_700_000_000.0
HOSTILE = "<script>x</script> [a](javascript:b) | `c` \x1b[31m\u202e ```\n# heading ````"
ONE = Incident(
    id="20231114-0000000a",
    app="shop",
    evaluator="groundedness",
    defect_rule="",
    version="v1",
    fired=FIRED,
    checked=NOW - 15,
    severity="warning",
    worst="critical",
    alerts=(FiredAlert("RagDefectRateHigh", "warning", 0.05), FiredAlert("RagDefectRateHigh", "critical", 0.15)),
    peak=RatePeak(FIRED + 600, 0.3, 0.2, 0.4, 100, 30, 3600.0),
    steps=(IncidentStep(FIRED, "RagDefectRateHigh (warning) fires."),),
)
RECORD = IncidentRecord(
    incident=ONE,
    onset=IncidentOnset(FIRED - 1800, FIRED - 2400, FIRED - 1200),
    changes=[IncidentStep(FIRED - 1900, "prompt 3 -> 4")],
    impact=IncidentImpact(FIRED - 1800, NOW, 120, 40, 1200.0, 400.0, 300.0, 500.0),
    diagnoses={"height": {"lines": ["Since 22:00 UTC. Nothing stands out."]}},
    answers=[IncidentAnswer(request_id="abc", at=FIRED, score=1.0, level="poor", question="Why?", response="No.")],
    notes=[IncidentNote(FIRED + 60, "user me", "The index was empty.")],
)


def hostile() -> IncidentRecord:
    answer = IncidentAnswer(
        request_id=HOSTILE, at=FIRED, score=1.0, level=HOSTILE, question=HOSTILE, response=HOSTILE * 30
    )
    one = replace(ONE, app=HOSTILE, evaluator=HOSTILE, defect_rule=HOSTILE, version=HOSTILE)
    return replace(
        RECORD,
        incident=replace(one, steps=(IncidentStep(FIRED, HOSTILE),)),
        changes=[IncidentStep(FIRED, HOSTILE)],
        diagnoses={"height": {"lines": [HOSTILE]}, "end": {"lines": "no list"}},
        answers=[answer],
        notes=[IncidentNote(FIRED, HOSTILE, HOSTILE)],
    )


def test_the_draft_tells_the_whole_story_and_leaves_cause_and_actions_to_people():
    said = "\n".join(markdown(RECORD, NOW))
    for part in (
        "# Incident 20231114-0000000a: groundedness of shop, critical",
        "**Rate rose:** 2023-11-14 21:43 UTC (between 2023-11-14 21:33 and 2023-11-14 21:53)",
        "**Alert fired:** 2023-11-14 22:13 UTC",
        "**Open:** for 3 h",
        "**Highest rate:** 30 % (20 % to 40 %) over 1 h, 100 scored, at",
        "about 400 bad answers (300 to 500) of 1,200; 120 were scored, 40 of them bad; since 2023-11-14 21:43 UTC",
        "| 2023-11-14 21:43 | The rate rises (best guess). |",
        "- 2023-11-14 21:41 UTC: prompt 3 -> 4",
        "Since 22:00 UTC. Nothing stands out.",
        "### 1. abc, 2023-11-14 22:13 UTC, score 1 (poor)",
        "The index was empty.",
        "## Cause",
        "## Actions",
    ):
        assert part in said, part


def test_the_timeline_is_in_the_order_of_time():
    lines = [line for line in markdown(RECORD, NOW) if line.startswith("| 2023")]
    assert lines == sorted(lines)
    assert len(lines) == 5


def test_in_plain_text_the_same_stands_in_lines():
    said = "\n".join(text(RECORD, NOW))
    for part in ("Incident 20231114-0000000a", "prompt 3 -> 4", "Question: Why?", "user me: The index was empty."):
        assert part in said


def test_what_ended_it_is_said_and_of_one_that_nobody_checks_any_more_when_it_last_was():
    over = replace(RECORD, incident=replace(ONE, ended=FIRED + 1800, end=IncidentEnd.FELL_BACK))
    assert "Ended:        2023-11-14 22:43 UTC, after 1 h. The rate fell back." in list(text(over, NOW))
    stopped = replace(RECORD, incident=replace(ONE, checked=FIRED + 60))
    assert any("the monitor last checked it at 2023-11-14 22:14 UTC" in line for line in text(stopped, NOW))


def test_a_bare_incident_can_be_told():
    bare = IncidentRecord(incident=replace(ONE, peak=None, steps=(), version=""))
    assert any("None are stored." in line for line in markdown(bare, NOW))
    assert list(text(bare, NOW))
    assert rows([bare], NOW)[1][6] == "-"


def test_hostile_texts_steer_no_terminal_and_are_no_markup():
    for line in [*text(hostile(), NOW), *markdown(hostile(), NOW), *rows([hostile()], NOW)[1]]:
        assert not set(line) & {"\x1b", "\u202e", "\n", "\r"}, line
    inside = ""
    for line in markdown(hostile(), NOW):
        fence = re.match(r"`{3,}$", line)
        if fence and inside in ("", line):
            inside = "" if inside else line
        elif not inside:
            assert "<script" not in line, line
            assert "](" not in line.replace("\\](", ""), line
            assert not line.startswith("# heading"), line
    assert not inside

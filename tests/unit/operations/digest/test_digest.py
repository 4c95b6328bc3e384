"""The digest: what surely changed, what did not, of what too little is known; cost and health; hostile names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from monitor import config
from monitor.cli import digest as digest_command
from monitor.clock import ManualClock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.model.case import ContextStatus, Document, Request
from monitor.model.incident import Incident, RatePeak
from monitor.model.outcome import Cost, EvaluationResult, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.model.request_log import RequestStep
from monitor.operations.describe import describe
from monitor.operations.digest import Digest, as_object, build_digest, digest_request
from monitor.operations.digest.words import RATES_SHOWN, sections_of, title_of
from monitor.storage import files
from monitor.storage.history.tables import create, insert
from monitor.storage.incidents import IncidentFile
from monitor.storage.request_log import store
from monitor.storage.request_log.store import Minute, StepCount
from tests.support.results import judged

DAY = 86_400.0
UNTIL = 1_700_006_400.0
SINCE, BEFORE = UNTIL - 7 * DAY, UNTIL - 14 * DAY


def settings(folder: Path) -> Config:
    judge = {"model": "openai/gpt-4o-mini", "api_key": "x"}
    return config.parse({"storage": {"path": str(folder)}, "judge": judge})


def week(first: int, number: int, bad: int, begin: float, **fields: object) -> Iterable[EvaluationResult]:
    """So many answers in a week, evenly over it, of which the last are bad."""
    for one in range(number):
        at = begin + one * 7 * DAY / number
        yield judged(first + one, 1.0 if one >= number - bad else 4.0, evaluated_at=at, **fields)


def digest(folder: Path, *results: Iterable[EvaluationResult], app: str | None = None) -> Digest:
    with closing(create(folder / files.HISTORY)) as db:
        for some in results:
            insert(db, list(some), texts=False)
    return build_digest(digest_request(settings(folder), before=BEFORE, since=SINCE, until=UNTIL, app=app))


def words(found: Digest) -> str:
    return "\n".join(line for section in sections_of(found, str) for line in (section.heading, *section.lines))


def verdict(found: Digest) -> str:
    (one,) = found.rates
    return one.verdict


def test_a_rate_that_surely_rose_is_said_to(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 500, 10, BEFORE), week(1000, 500, 60, SINCE))
    assert verdict(found) == "rose"
    assert "shop, groundedness: 12 % (" in words(found)
    assert "Rose significantly, by 10.0 points (" in words(found)
    assert "before 2.0 % of 500" in words(found)


def test_a_rate_that_surely_fell_is_said_to(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 500, 60, BEFORE), week(1000, 500, 10, SINCE))
    assert verdict(found) == "fell"
    assert "Fell significantly, by 10.0 points (" in words(found)


def test_a_small_difference_of_many_answers_is_no_sure_change(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 1000, 50, BEFORE), week(2000, 1000, 55, SINCE))
    assert verdict(found) == "no_sure_change"
    assert "No significant change (-1." in words(found)


def test_few_answers_are_too_little_to_say_of_a_change(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 20, 1, BEFORE), week(1000, 20, 2, SINCE))
    assert verdict(found) == "too_little"
    assert "Too little data to tell" in words(found)


def test_nothing_before_and_another_version_before_are_not_compared(tmp_path: Path) -> None:
    found = digest(
        tmp_path,
        week(0, 50, 1, SINCE),
        week(1000, 50, 40, BEFORE, version="v0", app="other"),
        week(2000, 50, 1, SINCE, version="v1", app="other"),
    )
    assert {one.app: one.verdict for one in found.rates} == {"shop": "nothing_before", "other": "another_version"}
    assert "another version of the evaluator" in words(found)


def test_of_two_versions_in_a_week_the_last_counts(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 50, 50, SINCE - DAY, version="v0"), week(1000, 50, 0, SINCE, version="v1"))
    (one,) = found.rates
    assert one.now.rate == 0


@pytest.mark.lengthy
def test_many_rates_without_a_change_yield_hardly_any_sure_change(tmp_path: Path) -> None:
    """At 5 % for each of 60 rates, three would be called changed by chance; shared out, none of these is."""
    some = []
    for one in range(60):
        app = f"app {one}"
        some.append(week(one * 1000, 200, 20 + one % 7, BEFORE, app=app))
        some.append(week(one * 1000 + 500, 200, 20 + (one * 3) % 11, SINCE, app=app))
    found = digest(tmp_path, *some)
    assert not [one for one in found.rates if one.verdict in ("rose", "fell")]
    lines = words(found).splitlines()
    assert len([line for line in lines if "groundedness: " in line]) == RATES_SHOWN
    assert f"{60 - RATES_SHOWN} more rates: rag-monitor digest --app NAME" in lines


def test_only_one_app_is_shown_on_request(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 5, 1, SINCE), week(100, 5, 1, SINCE, app="other"), app="other")
    assert [one.app for one in found.rates] == ["other"]
    assert "Answers of other, " in title_of(found, str)


def test_a_week_without_answers_is_said_to_be_one(tmp_path: Path) -> None:
    found = digest(tmp_path)
    assert "No answer was judged: there is nothing to report." in words(found)
    assert "It was not asked." in words(found)


def asked(number: int, at: float, reason: UnscoredReason | None = None) -> EvaluationResult:
    if reason is not None:
        outcome = Unscored(reason)
        return judged(number, evaluated_at=at, outcome=outcome, defect=False, cost=Cost(model="m"))
    return judged(number, evaluated_at=at, cost=Cost(model="m", dollars=0.25, seconds=2.0, attempts=2, asked=True))


def test_spend_and_the_health_of_the_judge_stand_against_the_week_before(tmp_path: Path) -> None:
    before = [asked(one, BEFORE + 60 * one) for one in range(20)]
    now = [asked(100 + one, SINCE + one) for one in range(6)]
    now += [asked(200 + one, SINCE + one, UnscoredReason.BREAKER_OPEN) for one in range(3)]
    now += [asked(300, SINCE, UnscoredReason.TIMEOUT)]
    found = digest(tmp_path, before, now)
    assert found.judge is not None
    assert (found.judge.dollars, found.judge.calls, found.judge.seconds) == (1.5, 12, 2.0)
    text = words(found)
    assert "Spent $1.50 for 12 calls; before $5.00 for 40." in text
    assert "40 % of 10 evaluations produced no score: 3 breaker open, 1 timeout. 2 s an evaluation on average." in text
    assert "Before, 0 % produced none." in text


def test_what_was_spent_on_an_evaluator_that_is_gone_is_told_too(tmp_path: Path) -> None:
    gone = [replace(asked(one, SINCE + one), evaluator="removed") for one in range(6)]
    unscored = [replace(asked(9, SINCE, UnscoredReason.ERROR), evaluator="local", cost=Cost())]
    text = words(digest(tmp_path, gone, unscored))
    assert "Spent $1.50 for 12 calls" in text
    assert "All 6 evaluations produced a score" in text


def test_what_was_spent_is_told_where_the_judge_only_found_that_nothing_was_to_be_judged(tmp_path: Path) -> None:
    cost = Cost(model="m", dollars=0.25, attempts=1, asked=True)
    none = Skipped(SkippedReason.NO_CLAIMS)
    text = words(digest(tmp_path, [], [judged(1, evaluated_at=SINCE, outcome=none, defect=False, cost=cost)]))
    assert "Spent $0.25 for 1 call; the cost of the period before is not kept." in text
    assert "produced" not in text


def test_sums_of_a_week_before_that_is_not_wholly_kept_are_not_compared(tmp_path: Path) -> None:
    found = digest(tmp_path, [asked(1, SINCE - DAY)], [asked(2, SINCE)])
    assert found.judge_before is None
    assert "the cost of the period before is not kept" in words(found)


def test_coverage_is_the_share_of_the_answers_that_each_evaluator_judged(tmp_path: Path) -> None:
    with closing(store.create(tmp_path / files.REQUEST_LOG)) as db:
        minute = Minute(int(SINCE // 60 * 60 + 60), RequestStep("shop", "otlp_http", "", "evaluated"))
        store.insert(db, [], {minute: StepCount(200, 200.0, SINCE + 61)})
    found = digest(tmp_path, week(0, 20, 1, SINCE))
    assert "shop: 200 answers, judged 10 % by groundedness." in words(found)


def test_coverage_counts_scores_outside_the_rates_and_those_of_every_version(tmp_path: Path) -> None:
    """Of 100 answers 20 are not production and 10 late; the prompt of the judge changed after half of the others."""
    steps = {("otlp_http", "", "evaluated"): 100}
    steps |= {("", "groundedness", step): number for step, number in (("score", 70), ("late", 10))}
    steps["", "groundedness", "non_production"] = 20
    with closing(store.create(tmp_path / files.REQUEST_LOG)) as db:
        at = int(SINCE // 60 * 60 + 60)
        counted = {
            Minute(at, RequestStep("shop", *step)): StepCount(number, number, SINCE + 61)
            for step, number in steps.items()
        }
        store.insert(db, [], counted)
    before = week(0, 35, 1, SINCE - 3.5 * DAY, version="v0")
    found = digest(tmp_path, before, week(1000, 35, 1, SINCE, version="v1"))
    assert "shop: 100 answers, judged 100 % by groundedness." in words(found)


def test_coverage_without_a_request_log_counts_every_version(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 20, 1, SINCE - 1, version="v0"), week(1000, 20, 1, SINCE, version="v1"))
    assert "shop: 39 by groundedness." in words(found)


def test_without_a_request_log_it_says_that_the_number_of_answers_is_not_kept(tmp_path: Path) -> None:
    found = digest(tmp_path, week(0, 20, 1, SINCE))
    assert "shop: 20 by groundedness. How many answers there were is not kept." in words(found)


def test_names_of_strangers_reach_the_words_only_quoted(tmp_path: Path) -> None:
    hostile = "<!channel> [x](http://evil) \u202e\x1b[2J " + "a" * 5000
    found = digest(tmp_path, week(0, 5, 1, SINCE, app=hostile), app=hostile)
    lines = [title_of(found, lambda _: "QUOTED")]
    lines += [line for section in sections_of(found, lambda _: "QUOTED") for line in section.lines]
    assert not [line for line in lines if "evil" in line or "aaaa" in line]
    assert len([line for line in lines if "QUOTED" in line]) == 3


def test_the_object_holds_the_rates_with_their_limits(tmp_path: Path) -> None:
    one = as_object(digest(tmp_path, week(0, 500, 10, BEFORE), week(1000, 500, 60, SINCE)))
    (rate,) = one["rates"]
    assert rate["verdict"] == "rose"
    assert rate["now"]["lower"] < 0.12 < rate["now"]["upper"]
    assert rate["change"]["lower"] > 0
    assert one["since"] == SINCE


def test_without_a_history_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="the history"):
        build_digest(digest_request(settings(tmp_path), before=BEFORE, since=SINCE, until=UNTIL))


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    digest(tmp_path, week(0, 20, 1, SINCE), [asked(100, SINCE)])
    with closing(sqlite3.connect(tmp_path / files.HISTORY)) as db:
        db.execute("UPDATE session_sums SET weight = 'x' WHERE defect")
        db.execute("UPDATE judge_use SET dollars = NULL")
        db.commit()
    found = build_digest(digest_request(settings(tmp_path), before=BEFORE, since=SINCE, until=UNTIL))
    assert found.rates


def document(number: int, at: float, *, bad: bool, address: str, question: str = "How long?") -> EvaluationResult:
    one = judged(number, 1.0 if bad else 4.0, evaluated_at=at, weight=1.0)
    found = (Document("Two years.", doc_uri=address),)
    case = replace(one.case, retrieved_context=found, request=Request(question), session_id=f"s{number}")
    return replace(one, case=case)


def test_documents_that_are_surely_worse_are_listed_to_mend(tmp_path: Path) -> None:
    stale = [document(one, SINCE + 60 * one, bad=one % 4 > 0, address="kb/<stale>") for one in range(60)]
    others = [document(100 + one, SINCE + 60 * one, bad=one % 40 == 0, address=f"kb/{one % 9}") for one in range(400)]
    found = digest(tmp_path, stale, others)
    (line,) = [line for line in words(found).splitlines() if "significantly worse" in line]
    assert "shop, groundedness: significantly worse with kb/<stale>: 75 % (" in line
    assert as_object(found)["documents"][0]["documents"][0]["document"] == "kb/<stale>"


def test_without_a_worse_document_no_section_is_there(tmp_path: Path) -> None:
    assert "Documents to fix" not in words(digest(tmp_path, week(0, 200, 20, SINCE)))


def test_questions_that_retrieval_never_answers_are_listed(tmp_path: Path) -> None:
    asked_for = [
        document(one, SINCE + 60 * one, bad=one < 30, address="kb/1", question="Where is the invoice archive?")
        for one in range(60)
    ]
    nothing = {"retrieved_context": (), "context_status": ContextStatus.RETRIEVED_NOTHING}
    empty = [
        replace(one, evaluator="retrieval_empty", case=replace(one.case, **(nothing if one.defect else {})))
        for one in asked_for
    ]
    text = words(digest(tmp_path, empty))
    assert "Unanswered questions\nshop: 50 % (" in text


def test_incidents_that_were_open_in_the_period_are_listed(tmp_path: Path) -> None:
    file = IncidentFile(tmp_path / files.INCIDENTS, ManualClock(UNTIL))
    for name, fired, ended in (("old", BEFORE, BEFORE + 60), ("new", SINCE + 60, SINCE + 7260), ("on", SINCE, None)):
        peak = RatePeak(fired, 0.23, 0.2, 0.26, 400, 92, 3600.0)
        file.save(
            Incident(
                id=name,
                app="shop",
                evaluator="groundedness",
                defect_rule="",
                version="v1",
                fired=fired,
                checked=ended or UNTIL,
                severity="critical",
                worst="critical",
                alerts=(),
                peak=peak,
                ended=ended,
            )
        )
    file.close()
    text = words(digest(tmp_path, week(0, 20, 1, SINCE)))
    (closed,) = [line for line in text.splitlines() if line.endswith("(new).")]
    assert closed.startswith("shop, groundedness: critical since ")
    assert ", for 2 h, up to 23 % of 400 judged (new)." in closed
    assert "still open, up to 23 % of 400 judged (on)." in text
    assert "(old)" not in text


def test_check_says_when_it_is_sent_and_to_whom() -> None:
    section = {"every": "monday 09:00", "to": ["chat"], "timezone": "Europe/Berlin"}
    notify = [{"type": "slack", "name": "chat", "url": "https://hooks.example/x"}]
    said = list(describe(config.parse({"notify": notify, "digest": section})))
    assert "Sends a digest, monday 09:00 (Europe/Berlin), to: chat." in said


def test_markdown_and_terminal_show_names_of_strangers_as_plain_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "a\n# h <!x> [l](http://evil) `c` @all | \x1b[2J\u202e"
    digest(tmp_path, week(0, 30, 3, SINCE, app=hostile))
    path = tmp_path / "config.yaml"
    path.write_text(f"storage: {{path: {tmp_path}}}\n")
    monkeypatch.setattr(digest_command, "SystemClock", lambda: ManualClock(UNTIL))
    digest_command.digest(config=path, form=digest_command.Form.MARKDOWN)
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if "groundedness: " in line]
    assert r"a \#&#8203; h &lt;!x> \[l\](http:&#8203;//evil) \`c\` @&#8203;all \| " in line
    digest_command.digest(config=path, form=digest_command.Form.TEXT)
    shown = capsys.readouterr().out
    assert "a # h <!x>" in shown
    assert not {"\x1b", "\u202e"} & set(shown)

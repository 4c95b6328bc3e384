"""A person labels answers: blind, one after another, and nothing typed is ever lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.model.case import Document, Message
from monitor.model.label import LabelVerdict
from monitor.model.outcome import Evidence
from monitor.privacy import erasure
from monitor.privacy.audit import NAME, Audit
from monitor.privacy.erasure import Mark
from monitor.web.context import ReviewParts
from monitor.web.pages import Pages
from tests.support.page import NOW, Site
from tests.support.review import ANA, BEN, REVIEWERS, Person, judged, measurable

pytestmark = pytest.mark.anyio
FIRST = "/review/label?app=shop&evaluator=groundedness&by=measure"


async def site_of(folder: Path, number: int = 12, **options: Any) -> Site:
    site = Site(folder, reviewers=REVIEWERS, **options)
    site.judge("shop", "groundedness", 9, 3)
    await site.store([judged(one, defect=one % 4 == 0) for one in measurable(number)])
    return site


async def person(site: Site, token: str = ANA) -> Person:
    made = Person(site)
    await made.sign_in(token)
    assert "Signed in as" in made.text
    return made


async def labelled(site: Site, number: int) -> None:
    """Label so many answers as drawn; of acme every answer is a defect, whatever the judge says."""
    assert site.context.review is not None
    queue = site.context.review.queue
    for _ in range(number):
        case = await queue.next("shop", "groundedness", "ana")
        assert case is not None
        bad = "acme" in case.question
        await queue.record(case.result_id, "ana", LabelVerdict.DEFECT if bad else LabelVerdict.GOOD)


async def test_the_page_of_the_judge_says_how_good_it_is_and_where_it_errs(tmp_path: Path) -> None:
    site = Site(tmp_path, reviewers=REVIEWERS, slices=("tenant",))
    site.judge("shop", "groundedness", 9, 3)
    tenants = {one: "acme<b>" if one % 3 == 0 else "others" for one in measurable(60)}
    await site.store(
        [
            judged(one, question=f"Of {tenant}: {one}?", defect=one % 10 == 7, attributes={"tenant": tenant})
            for one, tenant in tenants.items()
        ]
    )
    ana = await person(site)
    assert "How good the judge is" not in ana.text
    nothing = await ana.open("/review/judge?app=shop&evaluator=groundedness")
    assert ("too few labels" in nothing, "No error has been labelled yet." in nothing) == (True, True)
    await labelled(site, 55)
    assert "How good the judge is" in await ana.open("/review")
    shown = await ana.open("/review/judge?app=shop&evaluator=groundedness")
    for words in ("Where it errs", "1. tenant = acme<b>", "sensitivity", "specificity", "kappa", "missed"):
        assert words in shown
    assert "<b>: " not in ana.page
    for query in ("", "?app=shop", "?app=shop&evaluator=x", "?app=shop&evaluator=groundedness&more=1"):
        await ana.open(f"/review/judge{query}")
        assert ana.status == 400, query
    stranger = Person(site)
    assert "Your token" in await stranger.open("/review/judge?app=shop&evaluator=groundedness")


async def test_without_the_option_the_page_says_how_to_switch_it_on(tmp_path: Path) -> None:
    made = Person(Site(tmp_path))
    assert "Review is off" in await made.open("/review")
    assert await made.site.pages("/review/label", "", {}) is None
    assert await made.site.pages("/api/v1/review", "", {}) is None


async def test_a_signed_in_reviewer_sees_the_queues_and_others_only_a_form(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    stranger = Person(site)
    for path in ("/review", FIRST, "/review/labels", "/review/label?result=abc"):
        shown = await stranger.open(path)
        assert "Your token" in shown
        assert "Question" not in shown
    ana = await person(site)
    for words in ("shop · groundedness", "Signed in as ana", "0 labels measure the judge", "waiting"):
        assert words in ana.text


async def test_a_wrong_token_is_refused_and_audited_and_stands_nowhere(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    site.runtime.events.also(Audit(tmp_path, site.clock).on_event)
    made = Person(site)
    await made.sign_in("not-the-right-token")
    assert (made.status, made.cookie) == (401, "")
    assert "not a reviewer's token" in made.text
    assert "not-the-right-token" not in made.page
    for _ in range(9):
        await made.send("/review/in", secret="wrong")
    await made.send("/review/in", secret=ANA)
    assert made.status == 429
    assert "Wait 60 seconds" in made.text
    lines = (tmp_path / NAME).read_text()
    assert lines.count("reviewer_refused") == 10
    assert "not-the-right-token" not in lines


async def test_the_cookie_is_for_this_site_only_and_no_script_reads_it(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    made = Person(site)
    await made.open("/review")
    body = f"secret={ANA}&token={made.fields('/review/in')['token']}".encode()
    headers = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
    found = await site.pages.post("/review/in", headers, body)
    assert {"HttpOnly", "SameSite=Strict"} <= set(found.headers["set-cookie"].split("; "))
    assert "Secure" not in found.headers["set-cookie"]
    assert ANA not in found.headers["set-cookie"] + found.headers["location"]
    over_tls = await site.pages.post("/review/in", {**headers, "origin": "https://monitor.example"}, body)
    assert "Secure" in over_tls.headers["set-cookie"].split("; ")
    for origin in ("cross-site", "same-site", "none"):
        refused = await site.pages.post("/review/in", {**headers, "sec-fetch-site": origin}, body)
        assert refused.status == 403


async def test_the_judge_is_hidden_until_the_reviewer_has_labelled_and_shown_at_once_then(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    shown = await ana.open(FIRST)
    number = re.search(r"Question (\d+)\?", shown)
    assert number
    assert "A label is valid for 30 days." in shown
    assert "1 earlier turn" in shown or "2 earlier turns" in shown
    for hidden in ("The judge says so", "the context says 30 days", "contradicted", 'class="pill critical"'):
        assert hidden not in ana.page
    assert '<mark class="claim">' in ana.page, "what the judge looked at is marked, without what it says"
    after = await ana.label("good", comment="Fine.")
    assert "Saved: good" in after
    assert f"The judge says so of {number[1]}." in after
    assert f"Question {number[1]}?" in after, "of what was saved"
    assert ana.page.count("The judge says so") == 1, "the next one is hidden"


async def test_what_an_evaluator_marks_only_because_it_is_wrong_is_not_marked_before(tmp_path: Path) -> None:
    site = Site(tmp_path, reviewers=REVIEWERS)
    site.judge("shop", "overlap_groundedness", 1, 1)
    await site.store(judged(one, evaluator="overlap_groundedness", defect=True) for one in measurable(2))
    ana = await person(site)
    await ana.open(FIRST.replace("groundedness", "overlap_groundedness"))
    result = ana.fields("/review/label")["result"]
    assert "<mark" not in ana.page
    await ana.label("defect")
    await ana.open(f"/review/label?result={result}")
    assert '<mark class="contradicted"' in ana.page


async def test_where_review_is_not_blind_the_judge_is_shown_at_once(tmp_path: Path) -> None:
    site = await site_of(tmp_path, blind=False)
    ana = await person(site)
    assert "The judge says so of" in await ana.open(FIRST)


async def test_labels_follow_each_other_until_none_is_left_and_the_corrected_rate_appears(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    for _ in range(12):
        assert "Nothing left" not in ana.text
        await ana.label("good")
    assert "Nothing left to label here" in ana.text
    assert "12 labels" in ana.text
    assert "corrected 0 % (0 to" in ana.text
    assert "40 more labels : plus or minus" in ana.text
    listed = await ana.open("/review/labels")
    assert listed.count("ana") >= 12
    assert "corrected" in await ana.open("/review")


async def test_a_label_can_be_changed_and_both_are_kept(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    result = ana.fields("/review/label")["result"]
    await ana.label("good", comment="First.", level="grounded")
    own = await ana.open(f"/review/label?result={result}")
    assert (ana.fields("/review/label")["comment"], "First." in own) == ("First.", True)
    after = await ana.label("defect", comment="Second.", level="ungrounded")
    for words in ("defect ungrounded · ana", "Second.", "1 earlier", "First."):
        assert words in after, words
    assert len(site.context.review.queue.labels.find()) == 1


async def test_two_people_disagree_and_both_labels_are_shown_and_kept(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana, ben = await person(site), await person(site, BEN)
    await ana.open(FIRST)
    result = ana.fields("/review/label")["result"]
    await ana.label("good", comment="I see no fault.")
    shown = await ben.open(f"/review/label?result={result}")
    assert "I see no fault." not in shown, "nor is a colleague seen first"
    after = await ben.label("defect", comment="It is thirty days.")
    for words in ("good · ana", "I see no fault.", "defect · ben", "It is thirty days."):
        assert words in after, words
    listed = await ana.open("/review/labels?show=disagreements")
    assert ("ana" in listed, "ben" in listed, listed.count("shop · groundedness")) == (True, True, 2)
    assert "1 disputed" in await ana.open("/review")


async def test_a_stale_tab_changes_nothing_and_keeps_the_comment(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    other_tab = replace(ana)
    await other_tab.label("defect")
    site.clock.advance(1)
    shown = await ana.label("good", comment="Typed in the <old> tab.")
    assert ana.status == 409
    assert "you have since labelled this answer (defect)" in shown
    assert ana.fields("/review/label")["comment"] == "Typed in the <old> tab."
    assert [one.verdict for one in site.context.review.queue.labels.find()] == ["defect"]
    await ana.label("good")
    assert [one.verdict for one in site.context.review.queue.labels.find()] == ["good"]


async def test_a_second_click_is_no_second_label(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    again = replace(ana)
    await ana.label("good", comment=" Same. ")
    await again.label("good", comment=" Same. ")
    assert again.status == 200
    queue = site.context.review.queue.labels
    assert (len(queue.find()), queue.changes_of(queue.find()[0].result_id)) == (1, [])


async def test_an_answer_that_was_forgotten_meanwhile_is_not_labelled_and_the_comment_is_shown(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    result = ana.fields("/review/label")["result"]
    case = await site.context.review.queue.case(result, "ana")
    assert case is not None
    erasure.add(tmp_path, [Mark(site.clock.now(), trace=case.request_id)], since=0.0)
    site.clock.advance(2)
    shown = await ana.label("defect", comment="It was about <b>parcels</b>.")
    assert ana.status == 410
    assert "has been deleted in the meantime" in shown
    assert "It was about <b>parcels</b>." in shown
    assert "Your choice was defect" in shown
    assert site.context.review.queue.labels.find() == []


async def test_an_ended_session_asks_for_the_token_and_shows_the_label_again(tmp_path: Path) -> None:
    site = await site_of(tmp_path, clock=ManualClock(NOW))
    ana = await person(site)
    await ana.open(FIRST)
    result = ana.fields("/review/label")["result"]
    site.clock.advance(13 * 3600)
    shown = await ana.label("defect", comment="Not <lost>.", level="ungrounded")
    assert ana.status == 401
    assert "Your session has ended" in shown
    await ana.send("/review/in", secret="wrong")
    assert ana.fields("/review/in")["comment"] == "Not <lost>.", "nor by a typing error"
    shown = await ana.send("/review/in", secret=ANA)
    assert "This label is not saved yet" in shown
    assert (ana.fields("/review/label")["result"], ana.fields("/review/label")["comment"]) == (result, "Not <lost>.")
    await ana.label("defect")
    assert [(one.verdict, one.comment) for one in site.context.review.queue.labels.find()] == [
        ("defect", "Not <lost>.")
    ]


async def test_after_a_restart_a_form_of_before_is_shown_again_and_saves_nothing(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    site.pages = Pages(site.context, site.settings, started_at=NOW)
    await ana.label("good", comment="Before.")
    assert ana.status == 401
    assert site.context.review.queue.labels.find() == []
    await ana.send("/review/in", secret=ANA)
    await ana.label("good")
    assert [one.comment for one in site.context.review.queue.labels.find()] == ["Before."]


async def test_a_reviewer_who_signs_out_or_loses_the_token_is_out(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana, ben = await person(site), await person(site, BEN)
    kept = replace(ana)
    await ana.send("/review/out")
    for one in (ana, kept):
        assert "Your token" in await one.open("/review")
    (tmp_path / "reviewers").write_text(f"ana: {ANA}\n")
    site.clock.advance(2)
    assert "Your token" in await ben.open("/review")


async def test_every_label_and_look_is_audited_with_the_name_and_without_the_comment(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    site.runtime.events.also(Audit(tmp_path, site.clock).on_event)
    ana = await person(site)
    await ana.open(FIRST)
    await ana.label("good", comment="Secret remark.")
    lines = [json.loads(one) for one in (tmp_path / NAME).read_text().splitlines()]
    assert {one["event"] for one in lines} == {"reviewer_signed_in", "texts_viewed", "answer_labelled"}
    assert {one["who"] for one in lines if one["event"] != "reviewer_signed_in"} == {"reviewer ana"}
    (labelled,) = [one for one in lines if one["event"] == "answer_labelled"]
    assert (labelled["verdict"], labelled["evaluator"], len(labelled["requests"])) == ("good", "groundedness", 1)
    assert "Secret remark." not in json.dumps(lines)
    assert ANA not in json.dumps(lines)


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": "great"},
        {"verdict": ""},
        {"comment": "x" * 4001},
        {"level": "no such level"},
        {"result": ""},
        {"more": "fields"},
        {"by": "x" * 600},
    ],
)
async def test_a_form_that_was_tampered_with_saves_nothing(tmp_path: Path, fields: dict[str, str]) -> None:
    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    await ana.label(**{"verdict": "good", **fields})
    assert ana.status == 400
    assert site.context.review.queue.labels.find() == []


@pytest.mark.parametrize(
    "query", ["result=none", "result=%00", "app=no&evaluator=groundedness", "last=none&app=shop&evaluator=groundedness"]
)
async def test_what_is_not_there_is_said_and_breaks_nothing(tmp_path: Path, query: str) -> None:
    ana = await person(await site_of(tmp_path))
    await ana.open(f"/review/label?{query}")
    assert ana.status in (200, 410)


@pytest.mark.parametrize("query", ["by=best", "evaluator=none", "show=x", "result=" + "x" * 300])
async def test_a_wrong_parameter_is_named(tmp_path: Path, query: str) -> None:
    ana = await person(await site_of(tmp_path))
    needed = "" if query.startswith(("evaluator", "show", "app")) else "app=shop&evaluator=groundedness&"
    await ana.open(f"/review/label?{needed}{query}")
    assert ana.status == 400
    assert query.partition("=")[0] in ana.text


HOSTILE = (
    "</textarea></form><script>document.title='run'</script>",
    '" autofocus onfocus=alert(1) x="',
    "invoice \u202efdp.exe\u202c \u2067\u05d0\u2069 \x1b[31m\0\ud800",
    "x" * 150_000,
    "",
    "{{ 7 * 7 }} ${7*7}",
)


@pytest.mark.parametrize("text", HOSTILE, ids=["markup", "attribute", "turning", "huge", "empty", "template"])
async def test_texts_of_strangers_stay_texts(tmp_path: Path, text: str) -> None:
    site = Site(tmp_path, reviewers=REVIEWERS)
    numbers = measurable(2)
    site.judge("shop", "groundedness", 1, 1)
    evidence = (Evidence(text[:200] or "x", "absent", 0, 3, text[:200]), Evidence("y", "contradicted", 2, 10**9))
    await site.store(
        judged(
            one,
            response=text,
            question=text or "?",
            explanation=text[:20_000],
            history=(Message(text[:50], text),),
            documents=(Document(text, f"javascript:{text[:50]}"), Document(text, text[:200], text[:200])),
            evidence=evidence,
        )
        for one in numbers
    )
    ana = await person(site)
    for _ in numbers:
        await ana.open(FIRST)
        assert ana.status == 200
        await ana.label("defect", comment=text[:4000].replace("\ud800", ""))
        assert ana.status == 200
        for forbidden in ("<script>doc", '" autofocus onfocus', "\u202e", 'href="javascript:', "\0"):
            assert forbidden not in ana.page
    assert len(site.context.review.queue.labels.find()) == len(numbers)
    listed = await ana.open("/review/labels")
    assert ana.status == 200
    assert "<script>doc" not in ana.page
    assert listed


async def test_two_people_at_once_get_different_answers_and_lose_no_label(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    ana, ben = await person(site), await person(site, BEN)
    seen: dict[str, list[str]] = {"ana": [], "ben": []}

    async def work(name: str, one: Person) -> None:
        await one.open(FIRST)
        for _ in range(5):
            seen[name].append(one.fields("/review/label")["result"])
            await one.label("good")

    async with anyio.create_task_group() as both:
        both.start_soon(work, "ana", ana)
        both.start_soon(work, "ben", ben)
    labels = site.context.review.queue.labels.find()
    assert len(labels) == 10
    assert {(one.reviewer, one.result_id) for one in labels} == {(who, one) for who, ids in seen.items() for one in ids}
    assert len(set(seen["ana"]) & set(seen["ben"])) <= 2, "some are given to a second person on purpose"


async def test_labels_that_cannot_be_written_lose_no_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from monitor.errors import MonitorError

    site = await site_of(tmp_path)
    ana = await person(site)
    await ana.open(FIRST)
    parts = site.context.review
    assert isinstance(parts, ReviewParts)

    async def failing(*_: object, **__: object) -> None:
        raise MonitorError("the disk is full")

    monkeypatch.setattr(parts.queue, "record", failing)
    shown = await ana.label("good", comment="Kept.")
    assert ana.status == 503
    assert ("the disk is full" in shown, "Kept." in shown) == (True, True)


async def test_an_answer_without_anything_to_read_is_not_given_to_people(tmp_path: Path) -> None:
    site = Site(tmp_path, reviewers=REVIEWERS)
    numbers = measurable(4)
    site.judge("shop", "groundedness", 2, 2)
    texts = [("", ""), ("What?", ""), ("", "Yes."), ("", "")]
    await site.store(judged(one, question=q, response=r) for one, (q, r) in zip(numbers, texts, strict=True))
    ana = await person(site)
    for _ in range(2):
        await ana.open(FIRST)
        await ana.label("good")
        assert ana.status == 200
    assert "Nothing left" in await ana.open(FIRST)
    assert "Nothing left" in await ana.open(FIRST.replace("measure", "newest"))

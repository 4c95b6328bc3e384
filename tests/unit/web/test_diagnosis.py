"""The page and the JSON API of a diagnosis."""

from __future__ import annotations

import html as markup
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from monitor.alerts.catalogue import DIAGNOSIS
from monitor.config import Config
from monitor.model.outcome import EvaluationResult
from monitor.model.service_version import ServiceVersion
from monitor.operations.diagnose import diagnose_alert
from tests.support.page import NOW, Site
from tests.support.rise import NUMBER, Bad, common, in_acme, results

pytestmark = pytest.mark.anyio
ABOUT = "app=shop&evaluator=overlap_groundedness"
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}\x1b[31m\u202e"


async def site(folder: Path, given: Sequence[EvaluationResult]) -> Site:
    made = Site(folder, slices=("tenant", "language"))
    await made.store([replace(one, evaluator="overlap_groundedness") for one in given])
    return made


async def page(folder: Path, bad: Bad) -> tuple[dict[str, object], str]:
    made = await site(folder, results(bad, now=NOW))
    found = await made.get(f"/api/v1/diagnosis?{ABOUT}")
    assert found.status == 200, found.body
    return json.loads(found.body), (await made.get(f"/diagnosis?{ABOUT}")).body.decode()


def words(html: str) -> str:
    return " ".join(markup.unescape(re.sub(r"<[^>]+>", " ", html)).split())


async def test_a_cause_is_shown_with_its_rates_its_share_and_links_to_three_answers(tmp_path: Path) -> None:
    view, html = await page(tmp_path, in_acme)
    (factor,) = view["factors"]
    assert (view["state"], factor["factor"]["text"], factor["how"]) == ("found", "tenant = acme", "worse")
    assert factor["share"]["lower"] < factor["share"]["value"] < factor["share"]["upper"]
    assert factor["inside"]["lower"] > factor["outside"]["upper"]
    text = words(html)
    for shown in ("Higher since", "tenant = acme", "of the rise", "Bad with it", "Bad without it", "Worse since"):
        assert shown in text
    for example in factor["examples"]:
        assert f'href="case/{example["request_id"]}"' in html
    assert len(factor["examples"]) == 3


async def test_where_nothing_stands_out_the_page_says_what_would_have_been_seen(tmp_path: Path) -> None:
    view, html = await page(tmp_path, common)
    assert (view["state"], view["factors"]) == ("nothing_stands_out", [])
    assert view["visible"] is not None
    assert "Nothing stands out With" in words(html)
    assert "would have been found 4 times in 5" in words(html)


async def test_while_its_alert_fires_page_and_command_say_the_same_from_one_look_to_the_next(tmp_path: Path) -> None:
    before = results(in_acme, now=NOW)
    made = await site(tmp_path, before)
    made.judge("shop", "overlap_groundedness", good=50, bad=50)
    made.look()
    await made.keeper.catch_up()

    async def view() -> dict[str, Any]:
        found = json.loads((await made.get(f"/api/v1/diagnosis?{ABOUT}&since=1h")).body)
        return {name: value for name, value in found.items() if name not in ("at", "answers")}

    first = await view()
    assert first["factors"][0]["factor"]["text"] == "tenant = acme"
    assert first["next_look"] == math.ceil(0.5 * first["bad"])
    assert f"the next one needs {first['next_look']} more bad answers" in words(
        (await made.get(f"/diagnosis?{ABOUT}")).body.decode()
    )
    for due in (False, True):
        made.clock.advance(600)
        number = 1 if due else first["next_look"] - 1
        late = [one for one in results(lambda _: True, now=NOW + 600, number=NUMBER) if one.defect][-number:]
        renamed = [_again(one, f"{due} {place}", made.clock.now()) for place, one in enumerate(late)]
        await made.store(renamed)
        latest = await view()
        assert (latest == first) is not due
    alert = diagnose_alert(
        Config(storage={"path": str(tmp_path)}, slices=["tenant", "language"]),
        made.states[0].annotations["incident"],
        clock=made.clock,
    )
    assert (alert.found.bad, alert.found.next_look) == (latest["bad"], latest["next_look"])
    assert latest["looked"] > first["looked"]


def _again(one: EvaluationResult, name: str, at: float) -> EvaluationResult:
    case = replace(one.case, request_id=name, session_id=name, answered_at=at - 1)
    return replace(one, case=case, evaluator="overlap_groundedness", evaluated_at=at)


async def test_no_rise_and_no_history_are_said(tmp_path: Path) -> None:
    _, html = await page(tmp_path, lambda _: False)
    assert "no rise" in words(html).casefold() or "nothing stands out" in words(html).casefold()
    empty = Site(tmp_path / "other")
    await empty.store([])
    assert "Too few bad answers" in words((await empty.get(f"/diagnosis?{ABOUT}")).body.decode())


async def test_what_everything_has_since_then_and_changes_stand_beside_the_onset(tmp_path: Path) -> None:
    given = [
        replace(
            one,
            case=replace(one.case, attributes={**one.case.attributes, "prompt.version": "v8" if late else "v7"}),
            service_version=ServiceVersion(prompt="v8" if late else "v7"),
        )
        for one in results(common, now=NOW)
        for late in (one.evaluated_at > NOW - 300 * 60,)
    ]
    made = await site(tmp_path, given)
    view = json.loads((await made.get(f"/api/v1/diagnosis?{ABOUT}")).body)
    assert [one["text"] for one in view["switched"]] == ["prompt.version = v8"]
    assert [one["text"] for one in view["changes"]] == ["prompt v7 -> v8"]
    text = words((await made.get(f"/diagnosis?{ABOUT}")).body.decode())
    assert "Since then, everything has prompt.version = v8" in text
    assert "prompt v7 -> v8" in text


async def test_hostile_values_are_text_on_the_page(tmp_path: Path) -> None:
    def hostile(one: EvaluationResult) -> EvaluationResult:
        acme = one.case.attributes["tenant"] == "acme"
        attributes = {**one.case.attributes, "tenant": HOSTILE if acme else one.case.attributes["tenant"]}
        return replace(one, case=replace(one.case, attributes=attributes))

    made = await site(tmp_path, [hostile(one) for one in results(in_acme, now=NOW)])
    found = (await made.get(f"/diagnosis?{ABOUT}")).body.decode()
    assert "&lt;script&gt;" in found
    for raw in ("<script", "<img", "\x1b", "\u202e"):
        assert raw not in found


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "both are required"),
        ("app=shop", "both are required"),
        (f"{ABOUT}&since=0s", "is not before now"),
        (f"{ABOUT}&since=1h&until=2h", "is not before until"),
        (f"{ABOUT}&since=soon", "is not a duration"),
        (f"{ABOUT}&defect_rule=none", "defect_rule"),
        (f"{ABOUT}&limit=3", "is not a parameter"),
    ],
)
async def test_a_wrong_question_is_refused_with_what_is_allowed(tmp_path: Path, query: str, says: str) -> None:
    made = await site(tmp_path, [])
    found = await made.get(f"/api/v1/diagnosis?{query}")
    assert found.status == 400
    assert says in json.loads(found.body)["error"]


async def test_without_a_rate_the_page_asks_for_one(tmp_path: Path) -> None:
    made = await site(tmp_path, [])
    found = await made.get(f"/diagnosis?app={quote(HOSTILE)}")
    assert found.status == 200
    assert "Choose an app and an evaluator" in found.body.decode()
    assert "<script" not in found.body.decode()


async def test_alerts_show_their_line_and_link_to_the_diagnosis(tmp_path: Path) -> None:
    made = await site(tmp_path, [])
    made.judge("shop", "overlap_groundedness", good=10, bad=90)
    made.look()
    line = f"Since 14:05 UTC. {HOSTILE}"
    made.states = [replace(one, annotations={**one.annotations, DIAGNOSIS: line}) for one in made.states]
    alerts = json.loads((await made.get("/api/v1/alerts")).body)["alerts"]
    assert alerts[0]["diagnosis"] == line
    for path in ("/alerts", "/"):
        html = (await made.get(path)).body.decode()
        assert "Since 14:05 UTC." in html
        assert "<script" not in html
        assert 'href="diagnosis?app=shop&amp;evaluator=overlap_groundedness&amp;since=' in html


async def test_a_name_that_is_no_utf_8_breaks_neither_page_nor_json_and_examples_have_their_questions(
    tmp_path: Path,
) -> None:
    given = [
        replace(
            one,
            case=replace(
                one.case,
                attributes={**one.case.attributes, "tenant": f"{one.case.attributes['tenant']}\ud800"},
                request=replace(one.case.request, query=f"\ud800 <b> {one.case.request.query}"),
            ),
        )
        for one in results(in_acme, now=NOW)
    ]
    made = await site(tmp_path, given)
    found = await made.get(f"/api/v1/diagnosis?{ABOUT}")
    assert found.status == 200
    (factor,) = json.loads(found.body)["factors"]
    assert factor["factor"]["value"] == "acme\ufffd"
    assert len(factor["examples"]) == 3
    assert all("\ufffd <b> How long is the warranty" in one["question"] for one in factor["examples"])
    html = (await made.get(f"/diagnosis?{ABOUT}")).body.decode()
    assert "&lt;b&gt; How long is the warranty" in html

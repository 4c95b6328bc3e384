"""The worst answers of an app that no judge has seen, in the leading order, with both scores beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.model.outcome import EvaluationResult, RateScope, Skipped, SkippedReason
from monitor.statistics.defect_model import INPUTS
from monitor.statistics.verdict_learning import NEEDED
from tests.support.page import Site, answer

pytestmark = pytest.mark.anyio

EVALUATORS = ("overlap_groundedness", "learned_groundedness", "groundedness")


def both(number: int, before: float, learned: float, **fields: Any) -> list[EvaluationResult]:
    """One answer with both local scores."""
    texts = {"response": f"Answer {number}.", **fields}
    order = {"evaluator": "learned_groundedness", "scope": RateScope.RANKING, "defect": False, "level": ""}
    return [answer(number, before, **texts), answer(number, learned, **texts, **order)]


async def site(tmp_path: Path) -> Site:
    """A has the lower score of the overlap, B the lower learned one; C was judged, the judge could not say of D."""
    made = Site(tmp_path, evaluators=EVALUATORS)
    made.judge("shop", "overlap_groundedness", 5, 5)
    verdict = answer(3, 1.0, response="Answer 3.", evaluator="groundedness", level="ungrounded")
    skipped = answer(
        4, response="Answer 4.", evaluator="groundedness", outcome=Skipped(SkippedReason.REFUSAL), level=""
    )
    await made.store(
        [
            *both(1, 0.2, 0.9),
            *both(2, 0.8, 0.1),
            *both(3, 0.1, 0.1),
            *both(4, 0.9, 0.95),
            verdict,
            skipped,
            *both(9, 0.0, 0.0, app="docs"),
        ]
    )
    return made


def learn(made: Site, *, right: bool) -> None:
    """Verdicts that the order it begins with foretells wrongly, so that the learned one soon leads; or rightly."""
    order = made.context.learned
    assert order is not None
    for _ in range(NEEDED):
        for defect in (True, False):
            seen = 1.0 if defect is right else -1.0
            order.verdict("shop", tuple(seen for _ in INPUTS), 1.0, 0.0, defect=defect)


async def worst(made: Site, query: str = "app=shop") -> dict[str, Any]:
    found = await made.get(f"/api/v1/worst?{query}")
    assert found.status == 200
    view: dict[str, Any] = json.loads(found.body)
    return view


def listed(view: dict[str, Any]) -> list[str]:
    (app,) = view["apps"]
    return [one["response"] for one in app["answers"]]


async def test_without_verdicts_the_order_is_the_one_it_begins_with(tmp_path: Path) -> None:
    view = await worst(await site(tmp_path))
    assert listed(view) == ["Answer 1.", "Answer 2.", "Answer 4."]
    (app,) = view["apps"]
    assert (app["order"], app["auroc_before"], app["auroc_learned"]) == ("overlap_groundedness", None, None)
    assert [(one["before"], one["learned"]) for one in app["answers"]] == [(0.2, 0.9), (0.8, 0.1), (0.9, 0.95)]
    assert (view["teacher"], view["learned"]) == ("groundedness", "learned_groundedness")


async def test_the_learned_order_leads_once_it_foretold_the_verdicts_better(tmp_path: Path) -> None:
    made = await site(tmp_path)
    learn(made, right=False)
    view = await worst(made)
    assert listed(view) == ["Answer 2.", "Answer 1.", "Answer 4."]
    (app,) = view["apps"]
    assert app["auroc_before"] < app["auroc_learned"]
    assert next((one["before"], one["learned"]) for one in app["answers"]) == (0.8, 0.1)
    page = (await made.get("/worst?app=shop")).body.decode()
    assert "Ordered by <b>learned_groundedness</b>" in page
    assert f"{app['auroc_before']:.3f}" in page
    assert f"{app['auroc_learned']:.3f}" in page


async def test_while_the_learned_order_is_no_better_the_first_one_leads(tmp_path: Path) -> None:
    made = await site(tmp_path)
    learn(made, right=True)
    (app,) = (await worst(made))["apps"]
    assert app["auroc_before"] == 1.0
    assert app["order"] == "overlap_groundedness"


async def test_judged_answers_are_shown_on_request(tmp_path: Path) -> None:
    assert listed(await worst(await site(tmp_path), "app=shop&judged=any"))[0] == "Answer 3."


async def test_each_app_has_an_order_of_its_own(tmp_path: Path) -> None:
    made = await site(tmp_path)
    made.judge("docs", "overlap_groundedness", 5, 5)
    learn(made, right=False)
    orders = {one["app"]: one["order"] for one in (await worst(made, ""))["apps"]}
    assert orders == {"docs": "overlap_groundedness", "shop": "learned_groundedness"}


async def test_without_the_evaluator_the_page_says_how_to_have_it(tmp_path: Path) -> None:
    found = await worst(Site(tmp_path), "")
    assert found["apps"] == []
    assert "learned_groundedness" in found["empty_reason"]


async def test_no_more_than_asked_for_are_listed(tmp_path: Path) -> None:
    (app,) = (await worst(await site(tmp_path), "app=shop&limit=1"))["apps"]
    assert (len(app["answers"]), app["more"]) == (1, True)

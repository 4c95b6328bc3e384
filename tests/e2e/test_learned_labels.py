"""People's labels reach the learned order of a running monitor: once each, over a stop, a reload and another judge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from monitor.model.label import is_test
from monitor.storage.history.reader import HistoryReader, Search
from tests.support.command import command, write_rows
from tests.support.llm import Asked, LLMServer, Reply, filtered, verdict
from tests.support.monitor import MonitorProcess
from tests.support.review import ANA, BEN, REVIEWERS
from tests.support.service import CONTEXT
from tests.support.tools import wait_until

JUDGE = "groundedness"
# The judge passes both. People do not: the long one says the same thing five times.
LONG = (
    "Annual plans can be refunded in full. Annual plans can be refunded within thirty days of purchase. Monthly plans"
    " are not refundable. Refunded in full within thirty days. Monthly plans are not."
)
SHORT = "Annual plans can be refunded in full within thirty days, our cheerful staff promises."
DRAWABLE, OTHERS = 24, 4


def passes_all(asked: Asked) -> Reply:
    if asked.data["response"].startswith("So:"):
        return filtered()  # no verdict: such an answer teaches nothing
    return verdict(claims=[], explanation="as scripted", score=5)


def settings(folder: Path, llm: LLMServer, model: str = "openai/scripted") -> dict[str, Any]:
    (folder / "reviewers").write_text(REVIEWERS)
    (folder / "reviewers").chmod(0o600)
    return {
        "judge": {"model": model, "api_key": "none", "api_base": llm.url, "timeout": "60s"},
        "evaluators": [{"type": "learned_groundedness"}, {"type": "overlap_groundedness"}, {"type": JUDGE}],
        "alerts": [],
        "storage": {"path": str(folder / "state"), "texts": "all"},
        "review": {"enabled": True, "reviewers": {"token_file": str(folder / "reviewers")}},
        "reload": {"http": True},
    }


def names(kind: str, *, half: bool) -> Iterator[str]:
    """Ids of requests that may be drawn to measure the judge, or of the other half."""
    return (name for n in count() if is_test(name := f"{kind}-{n}") == half)


class Shop:
    """A service whose answers are long or short in turn, the monitor beside it, and its reviewers."""

    def __init__(self, monitor: MonitorProcess) -> None:
        self.monitor = monitor
        self.history = HistoryReader(monitor.folder / "state" / "history.db")

    def answer(self, ids: Iterable[str]) -> dict[str, str]:
        """Answer these requests, and wait for the verdicts; the ids of these by that of the request."""
        wanted = list(ids)
        rows = [
            {"id": name, "app": "shop", "question": f"Can I get my money back? ({name})", "contexts": [CONTEXT],
             "response": SHORT if number % 2 else LONG}
            for number, name in enumerate(wanted)
        ]  # fmt: skip
        assert self.monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200

        def judged() -> dict[str, str]:
            found = self.history.search(Search(evaluator=JUDGE, outcome="score", limit=1_000))
            by_request = {row["request_id"]: row["id"] for row in found}
            return {name: by_request[name] for name in wanted} if by_request.keys() >= set(wanted) else {}

        return wait_until(judged, 120, "the verdicts in the history")

    def scores(self) -> list[float]:
        """The learned scores of a new long answer and of a new short one, which get no verdict."""
        once = next(self._probes)
        rows = [
            {"id": f"probe-{once}-{number}", "app": "shop", "question": "Refunds?", "contexts": [CONTEXT],
             "response": f"So: {text}"}
            for number, text in enumerate((LONG, SHORT))
        ]  # fmt: skip
        assert self.monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
        return [wait_until(lambda name=row["id"]: self._learned(name), 60, "a learned score")[0] for row in rows]

    def told(self) -> tuple[str, str]:
        """How the learned score of a new answer is explained, and the version that made it."""
        name = f"probe-{next(self._probes)}"
        row = {"id": name, "app": "shop", "question": "Refunds?", "contexts": [CONTEXT], "response": f"So: {LONG}"}
        assert self.monitor.post(json.dumps([row]).encode(), "/v1/cases", "application/json") == 200
        _, explanation, version = wait_until(lambda: self._learned(name), 60, "a learned score")
        return explanation, version

    def wait_for(self, taught: int) -> None:
        """Wait until so many verdicts and labels have been learned, and see that no more are."""
        wait_until(lambda: self.taught() >= taught, 120, f"{taught} lessons")
        assert self.taught() == taught

    def taught(self) -> int:
        (found,) = json.loads(self.monitor.get("/api/v1/worst?app=shop"))["apps"]
        return int(found["taught"])

    def person(self, token: str) -> httpx.Client:
        url = f"http://127.0.0.1:{self.monitor.metrics_port}/api/v1/review"
        return httpx.Client(base_url=url, headers={"x-review-token": token}, timeout=120, trust_env=False)

    def labels(self, *arguments: object) -> None:
        """Run `rag-monitor labels`."""
        done = command("labels", "-c", self.monitor.folder / "config.yaml", *arguments)
        assert done.exit_code == 0, done.output

    def draw(self, number: int) -> list[dict[str, Any]]:
        """Draw answers for another tool; the rows that it gets."""
        path = self.monitor.folder / "drawn.jsonl"
        self.labels("--draw", number, "--export", path, "--app", "shop", "-e", JUDGE)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def bring(self, rows: Iterable[dict[str, Any]]) -> None:
        """Import what carol has said of these rows in another tool, years ago by its clock."""
        said = {"reviewer": "carol", "labelled_at": "2019-03-01T12:00:00Z"}
        labelled = [{**row, "human_label": "defect" if row["response"] == LONG else "good", **said} for row in rows]
        self.labels("--import", write_rows(self.monitor.folder / "in.jsonl", labelled))

    def _learned(self, name: str) -> tuple[float, str, str] | None:
        results = json.loads(self.monitor.get(f"/api/v1/cases/{name}"))["results"]
        own = (one for one in results if one["evaluator"] == "learned_groundedness")
        return next(((one["score"], one["explanation"], one["version"]) for one in own), None)

    _probes = count()


def label(person: httpx.Client, result: str, said: str) -> None:
    given = {"result": result, "verdict": said, "level": None, "comment": "", "seen": None}
    assert person.post("/labels", json=given).status_code == 200


def label_all_that_is_drawn(person: httpx.Client) -> list[str]:
    """Label what the queue gives until it has nothing left; the results in that order."""
    done: list[str] = []
    while (
        shown := person.get("/next", params={"app": "shop", "evaluator": JUDGE, "by": "measure"})
    ).status_code == 200:
        case = shown.json()
        label(person, case["result_id"], "defect" if case["response"] == LONG else "good")
        assert case["result_id"] not in done
        done.append(case["result_id"])
    return done


def test_a_label_of_a_drawn_answer_teaches_a_running_monitor_once_whatever_becomes_of_it(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(passes_all)
        monitor = MonitorProcess(tmp_path, settings(tmp_path, llm))
        shop = Shop(monitor)
        with monitor:
            began = shop.scores()
            drawable, others = names("case", half=True), names("case", half=False)
            results = shop.answer([*islice(drawable, DRAWABLE), *islice(others, OTHERS)])
            verdicts = len(results)
            shop.wait_for(verdicts)
            untaught = shop.scores()
            picked = [*islice(results.values(), 1), *list(results.values())[-OTHERS:]]
            with shop.person(ANA) as ana, shop.person(BEN) as ben:
                for one in picked:  # nothing was drawn yet
                    label(ben, one, "defect")
                done = label_all_that_is_drawn(ana)
                assert not set(done) & set(picked[1:]), "only of the half that measures"
                shop.wait_for(taught := verdicts + DRAWABLE)  # also by the one that was picked before it was drawn
                said = f"Learned from {taught} verdicts and labels, {DRAWABLE // 2} of them defects."
                explanation, version = shop.told()
                assert said in explanation
                after = shop.scores()
                assert after[0] - after[1] < untaught[0] - untaught[1]

                label(ana, done[0], "cannot_tell")
                label(ana, done[0], "good")
                label(ben, done[1], "defect")
            shop.answer(islice(drawable, 4))
            rows = shop.draw(4)
            shop.bring(rows[:2])
            shop.wait_for(taught := taught + 4 + 2)
            last = shop.scores()
            monitor.kill()

        shop.bring(rows[2:3])  # while nobody learns
        with monitor:
            shop.wait_for(taught := taught + 1)
            assert shop.scores() == pytest.approx(last, abs=0.2), "in another order: verdicts come first"
            assert shop.scores()[0] < untaught[0] - 0.3
            assert monitor.reload(slices=["tenant"]).startswith("200")
            shop.wait_for(taught)
            shop.bring(rows[3:])
            shop.wait_for(taught := taught + 1)

            assert monitor.reload(**settings(tmp_path, llm, "openai/another")).startswith("200")
            wait_until(lambda: shop.taught() == 0, 60, "a new beginning with another judge")
            explanation, another = shop.told()
            assert "Nothing has been learned yet" in explanation
            assert another != version
            assert shop.scores() == began

"""People who label answers, through the page's handler, as in a browser."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

import httpx

from monitor.model.label import is_test
from monitor.model.outcome import EvaluationResult
from monitor.telemetry.site import WebResponse
from tests.support.page import Site, answer

ANA, BEN = "a-token-of-ana-1234", "a-token-of-ben-1234"
REVIEWERS = f"ana: {ANA}\nben: {BEN}\n"
QUEUE = {"app": "shop", "evaluator": "groundedness", "by": "measure"}


def judged(number: int, *, defect: bool = False, **fields: Any) -> EvaluationResult:
    """Return a judge's result for one answer."""
    chosen: dict[str, Any] = {
        "evaluator": "groundedness",
        "explanation": f"The judge says so of {number}.",
        "question": f"Question {number}?",
        **fields,
    }
    made = answer(number, 1.0 if defect else 5.0, **chosen)
    return changed(made, level="ungrounded" if defect else "grounded", defect=defect)


def measurable(number: int) -> list[int]:
    """Return this many numbers of answers that may be drawn to measure the judge."""
    found: list[int] = []
    while len(found) < number:
        following = found[-1] + 1 if found else 1
        found.append(next(one for one in range(following, following + 100) if is_test(f"{one:032x}")))
    return found


@dataclass(slots=True)
class Person:
    """A person with a browser: keeps the cookie, and fills in the form shown last."""

    site: Site
    cookie: str = ""
    page: str = ""
    status: int = 0

    async def sign_in(self, token: str) -> None:
        await self.open("/review")
        await self.send("/review/in", secret=token)

    async def open(self, path: str) -> str:
        """Load a page, following redirects."""
        found = await self.site.get(path, {"cookie": self.cookie})
        return await self._take(path, found)

    async def send(self, path: str, *, origin: str = "same-origin", **fields: str) -> str:
        """Submit the form to `path`, with these fields changed."""
        given = {**self.fields(path), **fields}
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "cookie": self.cookie,
            "sec-fetch-site": origin,
        }
        body = str(httpx.QueryParams(given)).encode()
        return await self._take(path, await self.site.pages.post(path, headers, body))

    async def label(self, verdict: str, **fields: str) -> str:
        return await self.send("/review/label", verdict=verdict, **fields)

    async def _take(self, path: str, found: WebResponse) -> str:
        self.status = found.status
        if "set-cookie" in found.headers:
            self.cookie = found.headers["set-cookie"].partition(";")[0]
        if found.status == 303:
            return await self.open(
                str(httpx.URL(f"http://here{path}").join(found.headers["location"]).raw_path, "ascii")
            )
        own = r'<style>.*?</style>|<script>"use strict".*?</script>'
        self.page = re.sub(own, "", found.body.decode(), flags=re.DOTALL)
        return self.text

    @property
    def text(self) -> str:
        """Return the visible text of the page."""
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", self.page)).replace("\u00a0", " ").split())

    def fields(self, action: str) -> dict[str, str]:
        """Return the fields of the form with this action, as filled in."""
        found = re.search(rf'<form method="post" action="[^"]*{action[1:]}".*?</form>', self.page, re.DOTALL)
        assert found, f"no form for {action} on: {self.text[:300]}"
        given = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found[0]))
        comment = re.search(r'<textarea name="comment"[^>]*>(.*?)</textarea>', found[0], re.DOTALL)
        given |= {"comment": comment[1]} if comment else {}
        return {name: html.unescape(value) for name, value in given.items()}

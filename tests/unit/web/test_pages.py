"""What answers requests: whole pages, and the JSON API by its own description."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from jsonschema import Draft202012Validator

from monitor.model.case import Document
from monitor.model.outcome import Evidence
from monitor.web.openapi import described
from monitor.web.responses import STYLE
from monitor.web.settings import UiSettings
from tests.support.incidents import keep_incident
from tests.support.page import Site, answer

pytestmark = pytest.mark.anyio
ID = f"{1:032x}"
PAGES = ["/", "/?window=1h", "/answers", "/answers?outcome=any&since=7d", "/alerts", f"/case/{ID}"]
PAGES += ["/worst", "/worst?app=shop&judged=any"]
PAGES += ["/incidents", "/incidents/20231114-0000000a"]
PAGES += ["/why", f"/why?trace={ID}", "/why?evaluator=groundedness&since=1h"]
VOID = {"meta", "link", "br", "input", "circle", "line", "polygon", "polyline"}
OPTIONAL_END = {"tr", "td", "th"}
HOSTILE = "</title></style><script>document.title='run'</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


class Page(HTMLParser):
    """Every element opened and closed in order; what it links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in OPTIONAL_END:
            assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


async def filled(tmp_path, **options):
    site = Site(tmp_path, **options)
    site.judge("shop", "overlap_groundedness", 50, 50)
    site.judge("docs", "overlap_groundedness", 500, 1)
    site.look()
    bad = Evidence(HOSTILE, "absent", 0, 20, HOSTILE)
    await site.store(
        [
            answer(1),
            answer(1, 1.0, evaluator="groundedness", level="ungrounded", defect=True, explanation=HOSTILE, evidence=()),
            answer(
                2, response=HOSTILE, question=HOSTILE, app=HOSTILE, evidence=(bad,), explanation=HOSTILE,
                documents=(Document(HOSTILE, "javascript:alert(1)"),), attributes={HOSTILE: HOSTILE}, trace_id=HOSTILE,
            ),
        ]
    )  # fmt: skip
    keep_incident(tmp_path, "20231114-0000000a", HOSTILE)
    await site.keeper.catch_up()
    return site


async def page(site, path) -> Page:
    found = await site.get(path)
    assert found.status == 200
    return Page(found.body.decode())


@pytest.mark.parametrize("path", [*PAGES, f"/case/{HOSTILE}"])
async def test_a_page_is_well_formed_and_holds_no_script_and_nothing_from_outside(tmp_path, path):
    shown = await page(await filled(tmp_path), path)
    assert shown.open == []
    assert not {"script", "img", "iframe", "object", "embed", "base"} & {tag for tag, _ in shown.elements}
    assert [one["href"] for one in shown.all("link")] == [
        one["href"] for one in shown.all("link") if "favicon.svg" in one["href"]
    ]
    for _, attributes in shown.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert not [one for one in shown.all("a") if (one.get("href") or "").lower().startswith(("javascript:", "data:"))]


async def test_pages_are_sent_with_headers_that_let_nothing_else_run(tmp_path):
    site = await filled(tmp_path)
    for path in [*PAGES, "/api/v1/overview", "/favicon.svg"]:
        headers = (await site.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


async def test_the_style_is_the_one_whose_hash_is_sent(tmp_path):
    body = (await (await filled(tmp_path)).get("/")).body.decode()
    assert f"<style>{STYLE}</style>" in body


async def test_the_overview_renews_itself_and_no_other_page_does(tmp_path):
    site = await filled(tmp_path)
    for path in PAGES:
        renewed = [one for one in (await page(site, path)).all("meta") if one.get("http-equiv") == "refresh"]
        assert bool(renewed) == path.startswith("/?") or path == "/"


async def test_the_overview_says_states_reasons_and_rates(tmp_path):
    text = (await page(await filled(tmp_path), "/")).text
    for words in ("1 critical", "50\u00a0%", "RagDefectRateHigh", "50 defective", "How long is the label valid?"):
        assert words in text


async def test_a_case_shows_question_context_answer_marks_and_verdicts(tmp_path):
    site = await filled(tmp_path, settings=UiSettings(trace_url="https://jaeger.example/{trace_id}"))
    shown = await page(site, f"/case/{ID}")
    body = (await site.get(f"/case/{ID}")).body.decode()
    assert '<mark class="contradicted" title="contradicted: the context says 30 days">six months</mark>' in body
    for words in (
        "How long is the label valid?",
        "A label is valid for 30 days.",
        "overlap_groundedness",
        "groundedness",
    ):
        assert words in shown.text
    links = {one["href"] for one in shown.all("a")}
    assert {"https://kb.example/labels", f"https://jaeger.example/{ID}", "#mark-1"} <= links
    assert {one["id"] for one in shown.all("li") if "id" in one} >= {"mark-1"}


async def test_links_lead_from_every_page_to_the_others_wherever_the_root_is(tmp_path):
    site = await filled(tmp_path)
    for path in PAGES:
        for one in (await page(site, path)).all("a"):
            target = one["href"] or ""
            assert not target.startswith("/"), target
            if not target.startswith(("#", "http")):
                up = "../" if path.startswith(("/case/", "/incidents/")) else ""
                assert target.startswith(up)
                inner = "/" + target.removeprefix(up).removeprefix("./")
                if not inner.startswith("/metrics"):
                    assert (await site.get(inner.split("#")[0])).status == 200, target


async def test_without_texts_the_page_says_which_option_shows_them(tmp_path):
    site = await filled(tmp_path, texts=False)
    for path in ("/", "/answers", f"/case/{ID}"):
        assert "storage.texts: all" in (await page(site, path)).text


async def test_before_any_trace_the_page_says_where_to_send_them(tmp_path):
    site = Site(tmp_path)
    await site.store([])
    site.runtime.health.addresses["otlp_http"] = "127.0.0.1:4318"
    text = (await page(site, "/")).text
    assert "No traces yet" in text
    assert "127.0.0.1:4318" in text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/?window=2h", 400, "window: '2h' is not one of: 10m, 1h, 6h, 24h"),
        ("/answers?limit=1000", 400, "limit: '1000' is not a whole number from 1 to 200"),
        ("/case/none", 404, "No result of the trace 'none' is stored. Results are kept for 7 d."),
        ("/case/" + "x" * 600, 404, "No result of the trace"),
    ],
)
async def test_what_is_wrong_is_said_on_a_page_and_as_json(tmp_path, path, status, said):
    site = await filled(tmp_path)
    assert (await site.get(path)).status == status
    assert said in Page((await site.get(path)).body.decode()).text
    api = re.sub(r"^/case/", "/api/v1/cases/", re.sub(r"^/(\?|answers)", r"/api/v1/overview\1", path))
    found = await site.get(api.replace("overviewanswers", "answers"))
    assert found.status == status
    assert said in json.loads(found.body)["error"]


async def test_results_that_cannot_be_read_take_no_rates_with_them(tmp_path):
    site = Site(tmp_path)  # there is no history
    site.judge("shop", "overlap_groundedness", 50, 50)
    assert "50\u00a0%" in (await page(site, "/")).text
    assert (await site.get("/answers")).status == 503


@pytest.mark.parametrize("path", ["/none", "/case/", "/api/v1/none", "/api/v2/overview", "//", "/answers/"])
async def test_any_other_path_is_not_the_pages(tmp_path, path):
    assert await Site(tmp_path).pages(path, "", {}) is None


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize(
    ("path", "described_as"),
    [
        ("/api/v1/overview?window=6h", "/overview"),
        ("/api/v1/answers?outcome=any", "/answers"),
        (f"/api/v1/cases/{ID}", "/cases/{trace_id}"),
        (f"/api/v1/cases/{HOSTILE}", "/cases/{trace_id}"),
        ("/api/v1/alerts", "/alerts"),
        ("/api/v1/worst?judged=any", "/worst"),
        ("/api/v1/worst?judged=all", "/worst"),
        ("/api/v1/answers?limit=no", "/answers"),
        ("/api/v1/cases/none", "/cases/{trace_id}"),
    ],
)
async def test_the_api_answers_as_its_description_says(tmp_path, path, described_as, texts):
    site = await filled(tmp_path, texts=texts)
    description = json.loads((await site.get("/api/v1/openapi.json")).body)
    assert description == described()
    found = await site.get(path)
    answers = description["paths"][described_as]["get"]["responses"]
    schema = answers[str(found.status)]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": description["components"]}).validate(json.loads(found.body))


def test_every_field_of_the_api_that_has_a_unit_is_required_and_known():
    schemas = described()["components"]["schemas"]
    for name, schema in schemas.items():
        assert schema["additionalProperties"] is False, name
        assert set(schema["required"]) == set(schema["properties"]), name


async def test_every_parameter_of_the_description_is_taken(tmp_path):
    site = await filled(tmp_path, reviewers="ana: a-token-of-ana-1234")
    for path, about in described()["paths"].items():
        for parameter in about.get("get", {}).get("parameters", ()):
            if parameter["in"] == "query":
                schema = parameter["schema"]
                value = schema.get("default", schema.get("enum", ["shop"])[0])
                value = {"level": "supported", "until": "0s"}.get(parameter["name"], value)
                needed = "evaluator=shop&" if path == "/why" and parameter["name"] in ("since", "app") else ""
                if path == "/diagnosis":
                    pair = {"app": "shop", "evaluator": "groundedness"}
                    needed = "".join(f"{name}={one}&" for name, one in pair.items() if name != parameter["name"])
                    value = "mostly_ungrounded or lower" if parameter["name"] == "defect_rule" else value
                elif parameter["name"] == "defect_rule":
                    needed, value = "evaluator=groundedness&", "mostly_ungrounded or lower"
                taken = (200,)
                if path in ("/review/next", "/review/judge"):
                    pair = {"app": "shop", "evaluator": "groundedness"}
                    if path == "/review/next":
                        pair["by"] = "newest"
                    needed = "".join(f"{name}={one}&" for name, one in pair.items() if name != parameter["name"])
                    value = pair.get(parameter["name"], value)
                    taken = (200, 404)  # perhaps there is nothing to label
                sent = {"x-review-token": "a-token-of-ana-1234"}
                found = await site.get(f"/api/v1{path}?{needed}{parameter['name']}={value}", sent)
                assert found.status in taken, (parameter["name"], found.body)


async def test_more_requests_than_can_wait_are_asked_to_come_again(tmp_path):
    site = await filled(tmp_path)
    site.pages._waiting = 50
    assert (await site.get("/")).status == 503
    site.pages._waiting = 49
    assert (await site.get("/")).status == 200

"""The section `ui`."""

from __future__ import annotations

import pytest

from monitor import config
from monitor.errors import ConfigError
from monitor.operations.describe import describe
from monitor.web.settings import UiSettings


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"trace_url": "javascript:alert({trace_id})"}, "must begin with http:// or https://"),
        (
            {"trace_url": "https://a.example/{trace}"},
            "`{trace}` is not a known placeholder; allowed: {trace_id}, {span_id}",
        ),
        ({"trace_url": "https://a.example/"}, "needs `{trace_id}`"),
        ({"trace_url": "https://a.example/ {trace_id}"}, "plain ASCII without spaces"),
        ({"url": "monitor.example.com"}, "must begin with http:// or https://"),
        ({"url": "https://monitor.example.com/?a=b"}, "no `?` and no `#`"),
        ({"address": ""}, "unknown key; allowed: enabled, trace_url, url"),
    ],
)
def test_a_wrong_address_is_refused_with_what_is_allowed(entry, said):
    with pytest.raises(ConfigError) as refused:
        config.parse({"ui": entry})
    assert said in str(refused.value)


def test_ids_cannot_leave_their_place_in_a_link():
    settings = UiSettings(trace_url="https://a.example/{trace_id}?span={span_id}")
    assert settings.trace_link("../x?y#z", "{trace_id}&b=1") == (
        "https://a.example/..%2Fx%3Fy%23z?span=%7Btrace_id%7D%26b%3D1"
    )


def test_without_a_template_or_an_id_there_is_no_link():
    assert UiSettings().trace_link("1", "2") == ""
    assert UiSettings(trace_url="https://a.example/{trace_id}").trace_link("", "") == ""


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "The UI on http://127.0.0.1:9464/ shows rates, alerts and results, and no texts of the traffic."),
        ({"storage": {"texts": "all"}}, "results, and questions, contexts and answers."),
        ({"ui": {"enabled": False}}, None),
    ],
)
def test_check_says_what_the_page_shows(entry, said):
    stated = [line for line in describe(config.parse(entry)) if "The UI" in line]
    assert stated == [] if said is None else said in stated[0]

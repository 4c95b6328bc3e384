from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor import config, registry
from monitor.alerts.policy import AlertPolicy
from monitor.errors import ConfigError
from monitor.model.outcome import DefectRule
from monitor.operations.describe import describe


def test_an_empty_file_is_the_defaults():
    assert config.parse_text("") == config.load(None)


def test_the_defaults_listen_on_loopback_and_nowhere_else():
    loaded = config.load(None)
    assert {one.host for one in (*loaded.sources, *loaded.sinks)} == {"127.0.0.1"}
    assert [one.port for one in (*loaded.sources, *loaded.sinks)] == [4317, 4318, 9464]


def test_the_design_s_example_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    text = """
sources: [{type: otlp_grpc}, {type: otlp_http}]
sampling: {traces: 10%}
judge:
  model: openai/gpt-4o-mini
  api_key: "${OPENAI_API_KEY}"
  budget: {dollars_per_day: 20, requests_per_minute: 300}
evaluators:
  - type: overlap_groundedness
  - {type: groundedness, sample: 5%, defect: {below: 3}}
alerts:
  - {evaluator: groundedness, warning: 5%, critical: 15%}
notify: [{type: alertmanager, url: "http://127.0.0.1:9093"}]
sinks: [{type: prometheus}]
storage: {path: /var/lib/rag-monitor, retention: 7d, max_size: 2GiB}
"""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    loaded = config.load(path)
    assert loaded.sampling.traces == pytest.approx(0.1)
    assert loaded.judge.api_key.get_secret_value() == "sk-123"
    assert loaded.configured_evaluators[1].sampler.rate == pytest.approx(0.05)
    assert loaded.configured_evaluators[1].defect == DefectRule("below", 3.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour: red", ["colour", "unknown key", "sources", "evaluators"]),
        ("sampling: {trace: 0.1}", ["sampling.trace", "unknown key"]),
        ("sampling: {traces: 110%}", ["sampling.traces", "110%", "0% to 100%"]),
        ("sampling: {traces: 1}\nsampling: {traces: 2}", ["'sampling'", "twice", "line 2"]),
        ("sources: otlp_http", ["sources", "list", "otlp_http"]),
        ("sources: [otlp_http]", ["sources[0]", "mapping", "otlp_http"]),
        ("sources: [{type: otlp}]", ["sources[0]", "'otlp'", "otlp_http", "otlp_grpc"]),
        ("sources: [{port: 1}]", ["sources[0]", "type", "otlp_http"]),
        (
            "sinks: [{type: prometheus}, {type: jsonl, path: x, include_texts: true}]",
            ["sinks[1].include_texts", "what the history stores", "storage: {texts: all}"],
        ),
        ("sinks: [{type: jsonl, path: x, name: a}, {type: jsonl, path: y, name: a}]", ["sinks[1].name", "'a'"]),
        ("sinks: [{type: jsonl, path: x, name: storage}]", ["sinks[0].name", "'storage'", "taken"]),
        ("sinks: [{type: history}]", ["sinks[0].path", "required"]),
        ("sinks: [{type: prometheus, port: 4317}]", ["sinks[0].port", "sources[0] listens on port 4317"]),
        (
            "sinks: [{type: prometheus, port: 9464}, {type: prometheus, port: 9464}]",
            ["sinks[1].port", "sinks[0] listens on port 9464", "another one"],
        ),
        (
            "storage: {path: state}\nsinks: [{type: prometheus}, {type: history, path: state/../state/history.db}]",
            ["sinks[1].path", "the monitor itself", "history.db", "another file"],
        ),
        (
            "storage: {path: state}\nsinks: [{type: jsonl, path: state/spool.db}]",
            ["sinks[0].path", "the monitor itself"],
        ),
        (
            "sinks: [{type: jsonl, path: x}, {type: history, path: y}, {type: jsonl, path: x}]",
            ["sinks[2].path", "sinks[0] writes to x"],
        ),
        ("sources: [{type: otlp_http, prot: 1}]", ["sources[0]", "prot", "unknown key", "port"]),
        ("sources: [{type: otlp_http, port: 70000}]", ["sources[0]", "port", "70000", "65535"]),
        ("evaluators: [{type: groundednes}]", ["evaluators[0]", "groundednes", "groundedness"]),
        ("evaluators: [{type: groundedness, sample: lots}]", ["evaluators[0].sample", "lots", "percentage"]),
        ("evaluators: [{type: groundedness, defect: 3}]", ["evaluators[0].defect", "3", "below"]),
        ("evaluators: [{type: groundedness, defect: {below: 9}}]", ["evaluators[0].defect.below", "9", "1 to 5"]),
        ("evaluators: [{type: groundedness, defect: {under: 3}}]", ["evaluators[0].defect", "under", "below"]),
        ("evaluators: [{type: groundedness, defect: {at_least: 3}}]", ["evaluators[0].defect", "higher is better"]),
        ("evaluators: [{type: relevance}, {type: relevance}]", ["evaluators[1]", "relevance", "twice"]),
        ("alerts: [{evaluator: humour, warning: 5%}]", ["alerts[0]", "evaluator", "humour", "groundedness"]),
        ("judge: {api_key: '${NO_SUCH_VARIABLE}'}", ["judge.api_key", "NO_SUCH_VARIABLE", "not set"]),
        ("slices: [tenant, tenant]", ["slices[1]", "tenant", "twice"]),
        ("slices: ['no good']", ["slices", "no good"]),
        ("slices: tenant", ["slices", "tenant"]),
        ("traffic: {rates: {robots: 1%}}", ["traffic.rates", "robots", "synthetic"]),
        ("traffic: {rates: {production: 1%}}", ["traffic.rates", "production", "sample"]),
        ("traffic: {drop: [{attribute: http.route, match: /x}]}", ["traffic.drop", "match", "unknown key"]),
        ("traffic: {late_after: soon}", ["traffic.late_after", "soon", "duration"]),
        ("notify: [{type: pigeon}]", ["notify[0]", "pigeon", "webhook"]),
        ("- a\n- b", ["mapping", "list"]),
        ("a: [", ["YAML"]),
    ],
)
def test_a_mistake_is_named_by_place_value_and_what_is_allowed(text, words):
    with pytest.raises(ConfigError) as caught:
        config.parse_text(text, "my.yaml")
    message = str(caught.value)
    assert all(line.startswith("my.yaml: ") for line in message.splitlines())
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "text",
    [
        "sources: [{type: otlp_http, host: 0.0.0.0, auth: {token: canary}}]",
        "sources: [{type: otlp_http, auth: {token: [canary]}}]",
        "sources: {token: canary}",
        "sources: [[canary]]",
        "judge: {api_key: [canary]}",
        "judge: [{api_key: canary}]",
        "judge: {api_key: {value: canary}}",
        "judge: {model: m, api_base: 'http://user:canary@host/v1'}",
        "notify: [{type: webhook, url: 'ftp://canary'}]",
        "notify: [{type: webhook, url: 'http://host', token: [canary]}]",
    ],
)
def test_no_error_repeats_what_may_be_a_secret(text):
    with pytest.raises(ConfigError) as caught:
        config.parse_text(text)
    assert "canary" not in str(caught.value)


KEY = "sk-Zq81xWvU7rT3oN"
MISTAKES = [
    f"judge:\n  api_key: {KEY}: oops",
    f'judge:\n  api_key: "{KEY}',
    f"judge:\n  api_key: '{KEY}\nlog: {{}}",
    f"judge:\n  api_key: one\n  api_key: {KEY}",
    f"judge:\n  api_key: *{KEY}",
    f"judge:\n  api_key: !{KEY} x",
    f"judge:\n  api_key: >-\n  {KEY}",
    f"judge: {{model: m, api_key: {KEY}",
    "judge: ${CANARY}",
    "judges: ${CANARY}",
    "sources: [{type: otlp_http, auth: '${CANARY}'}]",
    "sources: [{type: otlp_http, port: '${CANARY}'}]",
    "sources: [{type: '${CANARY}'}]",
    f"notify: [{{type: {KEY}}}]",
    "notify: [{type: '${CANARY}'}]",
    "notify: [{type: webhook, url: '${CANARY}'}]",
    f"notify: [{{type: webhook, url: 'https://u:{KEY}@h/x'}}]",
    f"notify: [{{type: slack, url: '{KEY}'}}]",
    f"sources: [{{type: kafka, brokers: ['u:{KEY}@h:9092'], topics: [{{name: t, format: otlp_proto}}]}}]",
    f"ui: {{trace_url: 'http://u:{KEY}@h/'}}",
    f"ui: {{url: 'http://u:{KEY}@h/'}}",
    f"ui: {{url: 'ftp://u:{KEY}@h/'}}",
    f"runbooks_url: 'ftp://u:{KEY}@h/'",
    "runbooks_url: '${CANARY}'",
    "log: {level: '${CANARY}'}",
    f"log: {{level: {KEY}}}",
    f"telemetry: {{endpoint: 'http://h:4317', headers: {{authorization: [{KEY}]}}}}",
    f"sinks: [{{type: langfuse, secret_key: {{a: {KEY}}}}}]",
    "storage: {max_size: '${CANARY}'}",
    f"{KEY}: 1",
]


@pytest.mark.parametrize("text", MISTAKES)
def test_d13_no_mistake_prints_a_key_not_even_a_part_of_it(text, monkeypatch):
    monkeypatch.setenv("CANARY", KEY)
    with pytest.raises(ConfigError) as caught:
        config.parse_text(text)
    assert not any(KEY[at : at + 6] in str(caught.value) for at in range(len(KEY) - 6)), str(caught.value)


def test_d13_a_wrong_value_of_a_variable_is_shown_by_the_name_of_the_variable(monkeypatch):
    monkeypatch.setenv("OTLP_PORT", "4318/tcp")
    with pytest.raises(ConfigError, match=re.escape("whole number (given: '${OTLP_PORT}')")):
        config.parse_text("sources: [{type: otlp_http, port: '${OTLP_PORT}'}]")


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALIASES, "more than 20,000 values"),
        (
            ALIASES.replace("[", "{<<: [").replace("]", "]}").replace("x,", "{x: 1},"),
            "more than 20,000 values|not valid",
        ),
        ("a: " + "[" * 3000, "nested more than 50"),
        ("a: " + "[" * 100 + "]" * 100, "nested more than 50"),
        ("a: &a [*a]", "nested more than 50"),
    ],
    ids=["aliases", "merges", "open", "nested", "itself"],
)
def test_d20_yaml_that_stands_for_too_much_is_a_clear_error(text, said):
    with pytest.raises(ConfigError, match=said):
        config.parse_text(text)


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(tmp_path / "none.yaml")


def test_a_rubric_s_file_is_looked_for_beside_the_configuration(tmp_path, monkeypatch):
    rubrics = Path(registry.__file__).parent / "evaluators" / "rubrics"
    text = (rubrics / "relevance.md").read_text().replace("name: relevance", "name: tone")
    (tmp_path / "tone.md").write_text(text)
    (tmp_path / "config.yaml").write_text(
        "judge: {model: openai/x}\nevaluators: [{type: rubric, file: tone.md}]\nalerts: []"
    )
    monkeypatch.chdir("/")
    (assignment,) = config.load(tmp_path / "config.yaml").configured_evaluators
    assert assignment.evaluator.name == "tone"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(config.Config.model_fields)) | st.text(max_size=5), plain, max_size=4))
def test_whatever_stands_in_the_file_it_is_a_configuration_or_a_clear_error(data):
    with contextlib.suppress(ConfigError):
        config.parse_text(yaml.safe_dump(data))


def test_check_says_what_is_off_and_why():
    words = "\n".join(describe(config.load(None)))
    assert "groundedness is off: it asks a language model, and judge.model is not set" in words
    assert "otlp_grpc on 127.0.0.1:4317" in words
    assert "overlap_groundedness scores all kept cases locally" in words


def test_an_evaluator_may_ask_a_judge_of_its_own():
    loaded = config.parse(
        {
            "judge": {"model": "big"},
            "judges": {"checker": {"model": "small"}},
            "evaluators": [{"type": "groundedness", "judge": "checker"}, {"type": "relevance", "group": "pair"}],
        }
    )
    checked, big = loaded.configured_evaluators
    assert (loaded.judge_of(checked).model, loaded.judge_of(big).model) == ("small", "big")
    assert big.group == "pair"
    words = "\n".join(describe(loaded))
    assert "by small" in words
    assert "in one call with the group pair" in words


def test_an_evaluator_whose_own_judge_has_a_model_works_without_the_default_one():
    loaded = config.parse(
        {
            "judges": {"checker": {"model": "small"}},
            "evaluators": [{"type": "groundedness", "judge": "checker"}, {"type": "relevance", "optional": True}],
        }
    )
    assert [loaded.works(one) for one in loaded.configured_evaluators] == [True, False]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "groundedness", "judge": "nobody"}, r"evaluators\[0\].judge: 'nobody' is not in `judges`"),
        ({"type": "overlap_groundedness", "group": "g"}, r"evaluators\[0\].group: overlap_groundedness uses no judge"),
        ({"type": "groundedness", "group": 7}, r"evaluators\[0\].group: must be a name"),
    ],
)
def test_a_judge_or_group_that_cannot_be_is_an_error(entry, message):
    with pytest.raises(ConfigError, match=message):
        config.parse({"evaluators": [entry], "alerts": []})


def test_slices_and_traffic_read_as_people_write_them():
    text = """
slices: [prompt.version, gen_ai.request.model, tenant]
traffic:
  drop: [{attribute: http.route, matches: "/internal/*"}]
  class_attribute: acme.purpose
  rates: {synthetic: 1%}
  late_after: 30m
  weights: {shop: 3}
"""
    loaded = config.parse_text(text)
    assert loaded.slices == ("prompt.version", "gen_ai.request.model", "tenant")
    assert loaded.traffic.class_attribute == ("acme.purpose",)
    assert (loaded.traffic.rates, loaded.traffic.late_after) == ({"synthetic": 0.01}, 1800.0)
    told = " ".join(describe(loaded))
    assert "health checks, http.route is /internal/*" in told
    assert "0.01 of synthetic" in told
    assert "later than 30m" in told


HARM = """
judge: {model: openai/gpt-4o-mini}
evaluators: [{type: violence, defect: {at_least: medium}}]
alerts:
"""


def alerts_of(*entries: str) -> tuple[AlertPolicy, ...]:
    return config.parse_text(HARM + "".join(f"  - {{evaluator: violence, {entry}}}\n" for entry in entries)).alerts


def test_alerts_on_one_evaluator_may_each_bring_a_defect_rule_of_their_own():
    low, high, cut = alerts_of(
        "defect: {at_least: low}, warning: 5%",
        "defect: {at_least: high}, critical: 0.1%",
        "defect: {at_least: 5}, warning: 2%",
    )
    assert [one.defect.name for one in (low, high, cut)] == ["low or higher", "high", "5 or more"]


def test_the_evaluator_s_own_rule_written_out_is_its_own_rule():
    (own,) = alerts_of("defect: {at_least: 4}, warning: 5%")
    assert own.defect is None


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["warning: 5%", "defect: {at_least: medium}, critical: 1%"], "give one of them another `defect`"),
        (
            ["defect: {at_least: 2}, warning: 5%", "defect: {at_least: low}, critical: 9%"],
            "same defect rule: alerts[0]",
        ),
        (["defect: {at_least: severe}, warning: 5%"], "alerts[0].defect.at_least: 'severe' is neither a number nor"),
        (["defect: {below: low}, warning: 5%"], "alerts[0].defect: on violence lower is better, so use `at_least`"),
        (["defect: {at_least: 8}, warning: 5%"], "is not on the scale of violence"),
        (["defect: high, warning: 5%"], "alerts[0].defect: 'high' is not one of"),
    ],
)
def test_a_rule_of_an_alert_that_cannot_be_is_an_error(entries, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        alerts_of(*entries)


def test_an_evaluator_configured_twice_names_the_way_out():
    with pytest.raises(ConfigError, match=r"configured twice.*own `defect`: \{evaluator: violence, defect:"):
        config.parse_text("evaluators: [{type: violence}, {type: violence, defect: {at_least: high}}]\nalerts: []")


def test_check_names_the_level_of_each_alert():
    said = "\n".join(
        describe(
            config.parse_text(
                HARM + "  - {evaluator: violence, defect: {at_least: high}, critical: 0.1%}\n"
                "  - {evaluator: violence, warning: 5%}"
            )
        )
    )
    assert "rate of violence, a defect being level high (6 or more): critical above 0.1 %" in said
    assert "rate of violence, a defect being level medium or higher (4 or more): warning above 5 %" in said


def test_single_severe_cases_may_page_beside_alerts_on_rates():
    rates, severe = alerts_of("warning: 5%", "severe: {level: high, max_false_pages: 1}")
    assert severe.severe.accepted == 1
    assert not severe.watches_rate
    (both,) = alerts_of("warning: 5%, severe: true")
    assert both.severe.accepted == 3
    text = HARM + "  - {evaluator: violence, severe: true}\n"
    assert {name: rule.words for name, rule in config.parse_text(text).severe_rules.items()} == {
        "violence": "level high (6 or more)"
    }
    assert rates.severe is None


def test_what_is_severe_on_a_scale_where_higher_is_better_is_the_level_and_all_worse_ones():
    text = (
        "judge: {model: openai/x}\nevaluators: [{type: groundedness}]\n"
        "alerts: [{evaluator: groundedness, severe: {level: mostly_ungrounded}}]"
    )
    assert config.parse_text(text).severe_rules["groundedness"].words == "level mostly_ungrounded or lower (below 3)"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["severe: {level: very_low}"], "not a level of violence that can be severe; these are: low, medium, high"),
        (["severe: {level: awful}"], "alerts[0].severe.level: 'awful' is not a level of violence"),
        (["severe: {judge: other}"], "'other' is not in `judges`"),
        (
            ["severe: true", "severe: {page: each}"],
            "alerts[1]: evaluator 'violence' and every app already have `severe`",
        ),
        (["severe: {level: low}", "app: shop, severe: true"], "`level` and `judge` must be the same in all entries"),
        (["severe: true, defect: {at_least: low}"], "`severe` has a `level` of its own"),
        (["severe: {max_false_pages: 0}"], "max_false_pages"),
        (["app: shop"], "or `severe`"),
    ],
)
def test_an_alert_on_severe_cases_that_cannot_be_is_an_error(entries, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        alerts_of(*entries)


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        ("injection_pattern", "asks no judge of this monitor"),
        ("lynx", "cannot be asked in other words: name another judge"),
    ],
)
def test_severe_cases_need_an_evaluator_that_can_be_asked_again(evaluator, words):
    text = f"evaluators: [{{type: {evaluator}}}]\nalerts: [{{evaluator: {evaluator}, severe: true}}]"
    with pytest.raises(ConfigError, match=words):
        config.parse_text(text)


def test_another_judge_may_give_the_second_judgement():
    text = HARM + "  - {evaluator: violence, severe: {judge: second}}\njudges: {second: {model: openai/other}}"
    assert config.parse_text(text).alerts[0].severe.judge == "second"
    with pytest.raises(ConfigError, match="the judge 'second' has no model"):
        config.parse_text(text.replace("{model: openai/other}", "{}"))

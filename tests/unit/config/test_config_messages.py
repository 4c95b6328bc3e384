"""What a mistake in the configuration is answered with: the place, the fault, what is allowed, what may be meant."""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor import config
from monitor.errors import ConfigError
from tests.support.examples import examples
from tests.support.paths import ROOT

RUBRIC = (ROOT / "monitor" / "evaluators" / "rubrics" / "relevance.md").read_text()


def said(text: str, folder: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse_text(text, "my.yaml", folder)
    return str(caught.value)


KEYS = "allowed: type, sample, defect, judge, group"

ROWS: dict[str, tuple[str, str]] = {
    "unknown evaluator": (
        "evaluators: [{type: groundednes}]",
        "evaluators[0]: there is no 'groundednes' in evaluators (did you mean 'groundedness'?); there are: chunk_",
    ),
    "nothing to learn from": (
        "evaluators: [{type: learned_groundedness}]",
        "evaluators[0]: learned_groundedness starts from 'overlap_groundedness', which is not configured; add",
    ),
    "no such teacher": (
        ("evaluators: [{type: overlap_groundedness}, {type: learned_groundedness, learns_from: relevance},"
        " {type: groundedness, optional: true}, {type: relevance, optional: true}]"),
        ("evaluators[1].learns_from: 'relevance' is not a configured evaluator that asks a judge about grounding; these"
        " are: groundedness"),
    ),
    "a defect of an order": (
        "evaluators: [{type: overlap_groundedness}, {type: learned_groundedness, defect: {below: 0.5}}]",
        "evaluators[1].defect: learned_groundedness only ranks answers, and no score of it is a defect; remove it",
    ),
    "an alert on an order": (
        ("evaluators: [{type: overlap_groundedness}, {type: learned_groundedness}]\n"
        "alerts: [{evaluator: learned_groundedness, warning: 5%}]"),
        "alerts[0]: learned_groundedness only ranks answers: there is no rate to alert on",
    ),
    "rate above all": (
        "alerts: [{evaluator: groundedness, warning: 150%}]",
        "alerts[0].warning: 1.5 is not a rate: a number from 0 to 1, or a percentage from 0% to 100% (given: '150%')",
    ),
    "variable": (
        "judge: {api_key: '${NOT_SET_KEY}'}",
        "judge.api_key: the environment variable NOT_SET_KEY is not set",
    ),
    "words for a rate": (
        "sampling: {traces: lots}",
        "sampling.traces: 'lots' is not a rate: a number from 0 to 1, or a percentage from 0% to 100%",
    ),
    "model for a section": (
        "judge: openai/gpt-4o-mini",
        "judge: must be a mapping, such as {model: ...}, not text",
    ),
    "no attribute for the class": (
        "traffic: {class_attribute: []}",
        "traffic.class_attribute: must not be empty",
    ),
    "a date that does not exist": (
        "storage: {retention: 2026-02-30}",
        ("line 1, column 22: not valid YAML: this cannot be read as a date; put it in quotes if it is a text:"
        " `storage: {retention: 2026-02-30}`"),
    ),
    "empty section": ("judge:", "judge: must be a mapping, such as {model: ...}, not empty"),
    "list for a section": ("judges: [x]", "judges: must be a mapping, such as {name: {model: ...}}, not a list"),
    "short form of a section": (
        "alerts: [{evaluator: groundedness, warning: 5%, windows: [1h]}]",
        "alerts[0].windows[0]: must be a mapping, such as {window: 1h}, not text",
    ),
    "empty list": (
        "alerts: [{evaluator: groundedness, warning: 5%, windows: []}]",
        "alerts[0].windows: must not be empty",
    ),
    "text for a list": ("slices: tenant", "slices: must be a list, such as [tenant], not 'tenant'"),
    "flow without its end": (
        "evaluators:\n  - {type: groundedness\n  - {type: relevance}",
        "line 3, column 5: not valid YAML: expected ',' or '}', but got '{': `- {type: relevance}`",
    ),
    "tab": ("a:\n\t- b", "line 2, column 1: not valid YAML: a tab; YAML is indented with spaces: `- b`"),
    "nothing after a bracket": (
        "a: [",
        "line 1, column 5: not valid YAML: expected the node content, but found the end of the file: `a: [`",
    ),
    "key twice": (
        "sampling: {traces: 1}\nsampling: {traces: 2}",
        "line 2, column 1: the key 'sampling' occurs twice, first in line 1: `sampling: {traces: 2}`",
    ),
    "key that is a list": ("? [a]\n: b", "line 1, column 3: not valid YAML: a key must be text: `? [a]`"),
    "unknown judge option": ("judge: {modle: x}", "judge.modle: unknown key (did you mean 'model'?); allowed: model"),
    "unknown section": ("sinkss: []", "sinkss: unknown key (did you mean 'sinks'?); allowed: sources, "),
    "option by another name": ("judge: {base_url: x}", "judge.base_url: unknown key (did you mean 'api_base'?);"),
    "threshold of an evaluator": (
        "evaluators: [{type: groundedness, threshold: 3}]",
        f"evaluators[0].threshold: unknown key (did you mean `defect`, such as `defect: {{below: 3}}`?); {KEYS}",
    ),
    "threshold where lower is better": (
        "evaluators: [{type: violence, min_score: 3}]",
        f"evaluators[0].min_score: unknown key (did you mean `defect`, such as `defect: {{at_least: 4}}`?); {KEYS}",
    ),
    "sample, mistyped": (
        "evaluators: [{type: groundedness, sampel: 10%}]",
        f"evaluators[0].sampel: unknown key (did you mean 'sample'?); {KEYS}",
    ),
    "sample by another name": (
        "evaluators: [{type: groundedness, sampling_rate: 10%}]",
        f"evaluators[0].sampling_rate: unknown key (did you mean `sample`, such as `sample: 10%`?); {KEYS}",
    ),
    "sampler option": (
        "evaluators: [{type: groundedness, sample: {per_hr: 1}}]",
        "evaluators[0].sample.per_hr: unknown key (did you mean 'per_hour'?); allowed: per_day, per_hour,",
    ),
    "negative budget": (
        "judge: {budget: {dollars_per_day: -5}}",
        "judge.budget.dollars_per_day: must be above 0 (given: -5)",
    ),
    "number too large": (
        "sources: [{type: otlp_http, port: 99999}]",
        "sources[0].port: must be at most 65535 (given: 99999)",
    ),
    "no number": ("judge: {max_attempts: 1.5}", "judge.max_attempts: must be a whole number (given: 1.5)"),
    "no switch": ("redaction: {enabled: maybe}", "redaction.enabled: must be true or false (given: 'maybe')"),
    "no choice": (
        "log: {level: info}",
        "log.level: must be one of: DEBUG, INFO, WARNING, ERROR (did you mean 'INFO'?) (given: 'info')",
    ),
    "no path": ("storage: {path: 5}", "storage.path: must be a path (given: 5)"),
    "evaluator twice": (
        "evaluators: [{type: groundedness}, {type: groundedness}]",
        "evaluators[1]: 'groundedness' is configured twice. For alerts at several levels, give each entry of `alerts`",
    ),
    "alert on nothing": (
        "alerts: [{evaluator: groundednes, warning: 5%}]",
        "'groundednes' is not among the evaluators (did you mean 'groundedness'?): context_not_recorded, groundedness,",
    ),
    "warning above critical": (
        "alerts: [{evaluator: groundedness, warning: 20%, critical: 5%}]",
        "alerts[0]: `warning` (0.2) must be lower than `critical` (0.05)",
    ),
    "level": (
        "evaluators: [{type: violence, defect: {at_least: hgh}}]",
        ("evaluators[0].defect.at_least: 'hgh' is neither a number nor one of the levels very_low, low, medium, high"
        " (did you mean 'high'?)"),
    ),
    "off the scale": (
        "evaluators: [{type: violence, defect: {at_least: 8}}]",
        "evaluators[0].defect.at_least: 8 is not on the scale of violence, 0 to 7",
    ),
    "wrong direction": (
        "evaluators: [{type: violence, defect: {below: 3}}]",
        "evaluators[0].defect: on violence lower is better, so use `at_least`, not 'below'",
    ),
    "form of a rule": (
        "evaluators: [{type: violence, defect: {atleast: 3}}]",
        "evaluators[0].defect: unknown key 'atleast' (did you mean 'at_least'?); allowed: one of",
    ),
    "broker without a port": (
        "sources: [{type: kafka, brokers: localhost}]",
        "sources[0].brokers: 'localhost' is not a broker's address; expected `host:port`, such as `kafka:9092`",
    ),
    "required option": ("sources: [{type: kafka}]", "sources[0].brokers: is required"),
    "unknown source": (
        "sources: [{type: otlphttp}]",
        "sources[0]: there is no 'otlphttp' in sources (did you mean 'otlp_http'?); there are: kafka, otlp_grpc,",
    ),
    "source option": (
        "sources: [{type: otlp_http, prot: 1}]",
        "sources[0].prot: unknown key (did you mean 'port'?); allowed: host, port, tls, auth,",
    ),
    "unknown receiver": (
        "notify: [{type: webhok, url: 'http://x'}]",
        "(given: 'webhok') (did you mean 'webhook'?)",
    ),
    "unknown judge": (
        "evaluators: [{type: groundedness, judge: smal}]\njudges: {small: {model: openai/x}}",
        "evaluators[0].judge: 'smal' is not in `judges` (did you mean 'small'?); known: small",
    ),
    "judge of a local evaluator": (
        "evaluators: [{type: overlap_groundedness, judge: x}]",
        "evaluators[0].judge: overlap_groundedness uses no judge, so remove it",
    ),
    "slice": ("slices: ['no good']", "slices[0]: must match the pattern ^[A-Za-z_]"),
    "class of traffic": (
        "traffic: {rates: {robots: 1%}}",
        "traffic.rates.robots: must be one of: production, experiment, synthetic, internal (given: 'robots')",
    ),
    "key and key file": (
        "judge: {api_key: a, api_key_file: b}",
        "judge.api_key_file: `api_key` is set too; set only one of them",
    ),
    "key and key file of another judge": (
        "judges: {small: {api_key: a, api_key_file: b}}",
        "judges.small.api_key_file: `api_key` is set too; set only one of them",
    ),
    "credentials in an address": (
        "judges: {small: {model: m, api_base: 'http://user:canary@host'}}",
        "judges.small.api_base: contains credentials; use `api_key`",
    ),
    "rubric that is not there": (
        "evaluators: [{type: rubric, file: nofile.md}]",
        "evaluators[0].file: nofile.md: cannot be read: No such file or directory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_a_mistake_is_explained_to_the_letter(row):
    text, message = ROWS[row]
    first = said(text).splitlines()[0]
    assert first.startswith("my.yaml: ")
    assert message in first, first
    assert len(said(text).splitlines()) == 1


def test_two_mistakes_are_two_lines():
    lines = said("evaluators: [{type: rubric, fil: tone.md}]").splitlines()
    assert lines[0] == "my.yaml: evaluators[0].file: is required"
    assert lines[1].startswith("my.yaml: evaluators[0].fil: unknown key (did you mean 'file'?)")


def test_a_line_of_faulty_yaml_is_shown_without_its_secret():
    message = said("judge:\n  api_key: canary: [")
    assert "line 2" in message
    assert "`api_key: ...`" in message
    assert "canary" not in message


def test_a_rubric_with_the_name_of_a_built_in_evaluator_must_say_that_it_replaces_it(tmp_path):
    (tmp_path / "own.md").write_text(RUBRIC)
    message = said("evaluators: [{type: rubric, file: own.md}]\nalerts: []", tmp_path)
    assert "evaluators[0].file" in message
    assert "'relevance' is the name of a built-in evaluator" in message
    assert "`replaces: true`" in message
    text = "judge: {model: openai/x}\nevaluators: [{type: rubric, file: own.md, replaces: true}]\nalerts: []"
    (one,) = config.parse_text(text, folder=tmp_path).configured_evaluators
    assert one.evaluator.name == "relevance"


def test_a_rubric_that_replaces_nothing_is_an_error(tmp_path):
    (tmp_path / "own.md").write_text(RUBRIC.replace("name: relevance", "name: relevanse"))
    message = said("evaluators: [{type: rubric, file: own.md, replaces: true}]", tmp_path)
    assert "evaluators[0].replaces" in message
    assert "did you mean 'relevance'?" in message


# -------------------------------------------------------------------------------------------- any mistake at all


@functools.cache
def class_names() -> frozenset[str]:
    """All classes of the product that are written in CamelCase."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "monitor").rglob("*.py"))
    names = {node.name.lstrip("_") for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return frozenset(name for name in names if re.search(r"[a-z][A-Z]", name))


_NOT_OURS = re.compile(
    r"pydantic|Input should|instance of|\bTuple\b|\bvalid (dictionary|list|string)\b|NoneType|<class"
)

BASE: dict[str, Any] = yaml.safe_load("""
sources: [{type: otlp_http, port: 4318, auth: {token: abc}}, {type: kafka, brokers: ['k:9092'], topics: {a: case}}]
sampling: {traces: 10%}
assembly: {grace_period: 3s, max_trace_spans: 100}
extraction: {attributes: {documents: [a.b]}, prompt_templates: ['C: {context} Q: {question}']}
judge: {model: openai/x, api_key: abc, timeout: 3s, budget: {dollars_per_day: 5}, price: {input_per_million: 1,
  output_per_million: 1}, cache: {ttl: 1h}}
judges: {small: {model: openai/y}}
evaluators:
  - {type: overlap_groundedness, defect: {below: 0.3}}
  - {type: groundedness, sample: {per_hour: 5, boost: overlap_groundedness}, judge: small, group: g}
  - {type: violence, sample: 5%, defect: {at_least: medium}}
  - {type: response_length, shortest: 3}
feedback: {evaluators: {thumbs: {lowest: 0, highest: 1}}}
canary: {interval: 8h}
alerts: [{evaluator: groundedness, warning: 5%, critical: 15%, windows: [{window: 1h}], regression: true, app: shop}]
notify: [{type: webhook, url: 'http://host/x', token: abc}]
ui: {enabled: true}
slices: [tenant, prompt.version]
traffic: {rates: {synthetic: 1%}, drop: [{attribute: a, matches: b}], quotas: {shop: {per_hour: 3}}}
sinks: [{type: prometheus, port: 9464}, {type: jsonl, path: /tmp/x}]
redaction: {enabled: true}
storage: {path: /tmp/x, retention: 7d, max_size: 2GiB}
log: {level: INFO}
telemetry: {endpoint: 'http://host:4318'}
""")


def places(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


PLACES = sorted((one for one in places(BASE) if one), key=str)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-0.5, 1e9, float("inf"), float("nan"), "", "lots", "-1", "1h", "no good", "5%", "http://"]),
    st.lists(st.sampled_from([1, "a", None, {}]), max_size=2),
    st.dictionaries(
        st.sampled_from(["a", "type", "model", "below", "per_hour"]), st.sampled_from([1, "a", None]), max_size=2
    ),
)


@st.composite
def mistaken(draw: st.DrawFn) -> dict[str, Any]:
    """A configuration with one to three mistakes: a wrong value, a mistyped key, a key too many, one too few."""
    made = copy.deepcopy(BASE)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(PLACES))
        here: Any = made
        try:
            for part in at[:-1]:
                here = here[part]
            kind = draw(st.sampled_from(["value", "key", "more", "less"])) if isinstance(here, dict) else "value"
            if kind == "value":
                here[at[-1]] = draw(JUNK)
            elif kind == "more":
                here[draw(st.sampled_from(["colour", "threshold", "sampel", "modle", "url"]))] = draw(JUNK)
            else:
                old = here.pop(at[-1])
                if kind == "key":
                    here[f"{at[-1]}s"] = old
        except (KeyError, IndexError, TypeError):
            continue  # an earlier mistake has taken it away
    return made


@examples(80)
@given(mistaken())
def test_no_message_shows_a_class_or_the_words_of_a_library(data):
    try:
        config.parse(data)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert not _NOT_OURS.search(line), line
            assert not class_names().intersection(re.findall(r"\w+", line)), line
            assert "is not valid" not in line, line
            assert re.match(r"[a-z_]+(\[\d+\])?(\.[\w.-]+(\[\d+\])?)*: ", line), line

"""What docs/evaluators/special.md tells users to copy works as it stands."""

from __future__ import annotations

import re

import pytest

from monitor import config
from tests.support.paths import DOCS

PAGE = (DOCS / "evaluators" / "special.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_configurations_are_valid_and_their_judges_used(example, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-example")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: True)  # the extra [hhem] is not installed for tests
    loaded = config.parse_text(example)
    assert {one.judge for one in loaded.configured_evaluators} == set(loaded.judges)


def test_it_has_an_example_of_each_evaluator():
    types = {"fact_check", "prometheus_rubric", "lynx", "hhem", "trustworthiness"}
    assert types <= {word for example in EXAMPLES for word in re.findall(r"type: (\w+)", example)}

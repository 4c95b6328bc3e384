from __future__ import annotations

import re

import pytest
import yaml

from monitor import registry
from monitor.config.model import Config
from tests.support.paths import DOCS

PAGE = (DOCS / "sinks.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(sinks:.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_on_the_page_about_sinks_is_a_configuration(example: str) -> None:
    Config.model_validate(yaml.safe_load(re.sub(r"\$\{\w+\}", "secret", example)))


def test_the_page_names_every_sink() -> None:
    assert [name for name in registry.types("sinks") if f"| [`{name}`]" not in PAGE] == []

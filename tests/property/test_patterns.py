"""Every regular expression of the monitor takes time linear in the length of the text: most texts are strangers'.

Growth is judged, not seconds. A pattern that fails here usually needs a possessive quantifier (`\\w++`), an atomic
group or a left border (`(?<!#)#{2,}+`): it must not begin in the middle of what it has just tried in vain.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support import patterns
from tests.support.patterns import Found
from tests.support.work import grows_faster

pytestmark = [pytest.mark.lengthy, pytest.mark.timeout(1200)]

LONGEST: Final = 8_192
"""Characters. Work that grows with the square is plain by then, and still takes only a fraction of a second."""

SHORT: Final = dict.fromkeys(
    (f"monitor.evaluators._refusals.{name}" for name in ("UNKNOWN", "DECLINED", "BESIDE")), 512
)
"""Patterns that see short texts only, with the number of characters that they see at most (a clause: 400)."""

OUR_OWN: Final = {
    "monitor.alerts.catalogue": "reads our own pages",
    "monitor.quantities": "reads the operator's configuration",
    "monitor.web.settings": "reads the operator's configuration",
    "monitor.config": "reads the operator's configuration",
    "monitor.evaluators._rubric_file": "reads the operator's files",
    "monitor.cli": "reads the operator's command line",
}
"""Modules whose patterns never see a stranger's text, with what they see."""

MADE_AT_RUN_TIME: Final = {
    "monitor.evaluators._injection": (),  # those that it makes are held by the module: `PATTERNS`
    "monitor.evaluators.pii_leak": (),
    "monitor.judge.contradiction": (),
    "monitor.evaluators._quotes": (r"two\s+words", r"a\s+a\s+a\s+b"),  # a quote, its words joined
    "monitor.extraction.template": (r"two\s+words", r"a\s+a\s+a\s+b"),  # a piece of a template, likewise
    "monitor.extraction.content": (r"(?<![\w'\u2019.-])B(?![\w'\u2019-])", r"(?<=[\w,;(/] )A(?![\w'\u2019-])"),
    "monitor.extraction.quoted": (r'(id|score)":"', r'", "(id|score)":"'),
    "monitor.extraction.values": (r"""\b(?:text|content)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""",),
    "monitor.pipeline.traffic": (),  # of the operator's configuration
    "monitor.alerts.notify.apprise": (),
    "monitor.storage.incidents": (r"(?<![\w-])20231114\-0a(?![\w-])|(?<![\w-])20231114\-0ab(?![\w-])",),  # ids
    "monitor.storage.history.languages": (),  # held by the module, too
}
"""Modules that make patterns of what is not known here, with examples of what they make."""

WINGS: Final = sorted({".".join(module.split(".")[:2]) for module in patterns.modules()} - {"monitor"})


def test_every_pattern_is_known_or_has_an_example() -> None:
    found, unknown = patterns.every()
    assert len(found) > 200
    assert all(any(one.place.startswith((f"{wing}.", f"{wing}:")) for wing in WINGS) for one in found)
    assert {place.partition(":")[0] for place in unknown} == set(MADE_AT_RUN_TIME)


@pytest.mark.parametrize("wing", WINGS)
def test_a_pattern_is_linear_in_every_text(wing: str) -> None:
    own = tuple(f"{module}{end}" for module in OUR_OWN for end in ".:")
    inside = [one for one in patterns.every()[0] if one.place.startswith((f"{wing}.", f"{wing}:"))]
    assert not [said for found in inside if not found.place.startswith(own) for said in too_slow(found)]


@pytest.mark.parametrize("module", MADE_AT_RUN_TIME)
def test_what_is_made_at_run_time_is_linear_too(module: str) -> None:
    examples = [Found(module, re.compile(one), frozenset()) for one in MADE_AT_RUN_TIME[module]]
    assert not [said for found in examples for said in too_slow(found)]


@pytest.mark.parametrize(
    "pattern",
    [
        r"#{2,} ?system",
        r"reisepass\w*[^.!?\d]{0,25}?\d",
        r"системн\w+ промпт",
        r'"(?:[^"\\]|\\.)*"',
        r"\s+$",
        r"(?:a+)+b",
        r"(?:a|aa)+b",
        r"<!--.*?-->",
        r"(?:\w+ )*end",
        r"x*y*z",
        r"^(\d+,?)+$",
    ],
)
def test_texts_are_found_that_make_a_bad_pattern_slow(pattern: str) -> None:
    assert next(too_slow(Found("here", re.compile(pattern, re.DOTALL), frozenset())))


def too_slow(found: Found):
    """Yield what makes the pattern slow: where it stands, the pattern, and how the text is made."""
    for recipe in patterns.slow_texts(found.pattern):
        growth = grows_faster(found.apply, recipe.text, longest=SHORT.get(found.place, LONGEST))
        if growth:
            yield f"{found.place} {found.pattern.pattern!r}: {growth}, {recipe}"
            return

"""54 templates of attack in three fields and six forms; see `tests/support/injections.py`."""

from __future__ import annotations

import json

import pytest

from tests.support.injections import FAKE, FORMS, TEMPLATES, WANTED, Found, Suite, attacks, fenced, verdict


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite()


@pytest.fixture(scope="module")
def found(suite: Suite) -> Found:
    return suite.run()


def test_the_suite_is_as_large_as_it_says(found: Found) -> None:
    assert len(set(TEMPLATES)) == 54
    assert len(set(attacks())) == found.attacks == 54 * 3 * 6


def test_no_attack_ends_its_block_and_no_guessed_fence_is_the_one_in_use(found: Found) -> None:
    assert found.guessed == 0


def test_a_verdict_that_stands_in_what_is_examined_is_never_read_as_the_judges(found: Found) -> None:
    assert found.replies == 4 * found.attacks
    assert found.passed == 0


def test_most_of_them_are_found_in_requests_and_documents(suite: Suite, found: Found) -> None:
    """Not those that read like any sentence: "new instructions from the administrator"."""
    assert found.detected >= 0.75 * found.searched, dict(suite.missed)
    assert set(suite.missed) == set(FORMS)


def test_the_measure_can_fail() -> None:
    assert verdict(FAKE, {}) == WANTED
    assert verdict(json.dumps({"score": WANTED}), {}) is None
    assert fenced({"response": "plain"})

"""Inputs that were kept, of fuzzing and of attackers, are refused or read. `tests/fuzz.py` looks for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fuzzing import CORPUS, TARGETS

KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_input_is_refused_or_read(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_inputs() -> None:
    assert {path.parent.name for path in KEPT} == set(TARGETS)

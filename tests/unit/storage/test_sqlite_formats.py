"""Every file of every version ever released is read by this one, and damage anywhere in one costs rows at most."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import ConfigError, MonitorError
from tests.support import databases
from tests.support.databases import ALL_READERS, EXAMPLES, READERS
from tests.support.examples import examples

VERSIONS = sorted(EXAMPLES.iterdir())


@pytest.mark.parametrize("version", VERSIONS, ids=lambda one: one.name)
def test_what_a_released_version_wrote_is_read_whole(version: Path, tmp_path: Path) -> None:
    expected = databases.unpacked(version, tmp_path)
    assert expected.keys() == ALL_READERS.keys()
    for name, known in expected.items():
        assert databases.alone(tmp_path / name) == known, name


def test_the_present_version_has_its_examples() -> None:
    """Else: python -m tests.support.databases."""
    assert databases.__version__ in {one.name for one in VERSIONS}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("good")
    databases.fill(folder)
    return folder


@given(
    name=st.sampled_from(sorted(READERS)),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["one byte", "200 bytes", "some bytes", "a page", "cut"]),
)
@examples(60)
def test_damage_anywhere_in_a_database_costs_rows_at_most(name: str, seed: int, kind: str, made: Path) -> None:
    rng = random.Random(seed)
    image = bytearray((made / name).read_bytes())
    at = rng.randrange(len(image))
    if kind == "cut":
        del image[at:]
    else:
        length = {"one byte": 1, "200 bytes": 200, "some bytes": rng.randrange(2, 40), "a page": 4096}[kind]
        at = at // 4096 * 4096 if kind == "a page" else at
        image[at : at + length] = rng.randbytes(len(image[at : at + length]))
    with databases.written(name, bytes(image)) as path:
        try:
            for _ in range(2):  # what is repaired stays so
                READERS[name](path.parent)
        except ConfigError as error:  # a version number that is higher by a few: as of a newer version
            assert "newer version" in str(error)  # noqa: PT017 - only some examples raise
        except MonitorError as error:  # of a file that only readers open: there is no writer to repair it
            assert name in ("request_log.db", "retained.db"), error  # noqa: PT017 - as above

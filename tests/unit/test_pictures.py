"""The pictures of the docs: which there are, and what makes them."""

from __future__ import annotations

import re

import pytest

from tests.support import pictures
from tests.support.paths import DOCS


def test_every_picture_of_the_docs_is_made_by_make_pictures_or_by_a_benchmark() -> None:
    made = [file for one in pictures.MADE.values() for file in one.files]
    assert sorted([*made, *pictures.PLOTTED]) == sorted(path.name for path in pictures.IMAGES.iterdir())


@pytest.mark.parametrize(("file", "command"), pictures.PLOTTED.items())
def test_the_docs_give_the_command_that_draws_a_plot(file: str, command: str) -> None:
    given = re.compile(rf"`{re.escape(command)} [^`]*--plot docs/images/{re.escape(file)}`")
    assert [page.name for page in DOCS.glob("*.md") if given.search(page.read_text())]


def test_a_name_that_makes_no_pictures_is_refused_before_any_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    first = next(iter(pictures.MADE))
    monkeypatch.setitem(pictures.MADE, first, pictures.Pictures(made.append, ()))
    with pytest.raises(SystemExit, match=r"no pictures bord: there are .*board"):
        pictures.main([first, "bord"])
    assert made == []
    pictures.main([first])
    assert len(made) == 1

"""The pictures of the docs: which there are, and what makes them."""

from __future__ import annotations

import pytest

from tests.support import pictures


def test_every_picture_of_the_docs_is_made_by_make_pictures() -> None:
    made = [file for one in pictures.MADE.values() for file in one.files]
    assert sorted(made) == sorted(path.name for path in pictures.IMAGES.iterdir())


def test_a_name_that_makes_no_pictures_is_refused_before_any_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    first = next(iter(pictures.MADE))
    monkeypatch.setitem(pictures.MADE, first, pictures.Pictures(made.append, ()))
    with pytest.raises(SystemExit, match=r"no pictures bord: there are .*board"):
        pictures.main([first, "bord"])
    assert made == []
    pictures.main([first])
    assert len(made) == 1

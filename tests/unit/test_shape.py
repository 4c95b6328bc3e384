"""The shape of the house: what is measured of it, and the limits that it is held to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import shape
from tests.support.paths import ROOT
from tests.support.shape import Imports, Way

Package = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Writes a package `house` of these files."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / "house" / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "house"

    return write


def known(folder: Path) -> Imports:
    return shape.imports(shape.sources(folder), "house")


def test_an_import_counts_wherever_it_stands_and_of_this_package_only(package: Package) -> None:
    folder = package(
        a__in____init__="",
        a__in__one="import os\nimport house.b.two\nfrom house.c import three\nfrom other.b import two\n",
        b__in__two="def late():\n    from house.c.three import Three\n",
        c__in__three="if TYPE_CHECKING:\n    from house import a\nfrom . import nearby\n",
    )
    assert known(folder).files == {"a", "a/one", "b/two", "c/three"}
    assert known(folder).pairs == {
        ("a/one", "b/two"),
        ("a/one", "c/three"),
        ("b/two", "c/three"),
        ("c/three", "a"),
    }


def test_a_name_that_a_file_defines_is_an_import_of_that_file_and_the_package_itself_is_none(package: Package) -> None:
    folder = package(
        a="from house.b import Thing, helper\nfrom house import __version__\n", b="class Thing: ...\nimport house.b\n"
    )
    assert known(folder).pairs == {("a", "b")}


def test_files_of_one_wing_are_no_pair_of_wings(package: Package) -> None:
    folder = package(a__in__one="from house.a import two\n", a__in__two="from house import b\n", b="")
    assert known(folder).between_wings == {("a", "b")}


def test_a_circle_is_all_that_reach_each_other_however_far_around() -> None:
    pairs = {("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("f", "g"), ("g", "f"), ("h", "a")}
    assert shape.circles(pairs) == [{"a", "b", "c"}, {"f", "g"}]


def test_what_only_leads_in_one_direction_is_no_circle() -> None:
    assert shape.circles({("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}) == []


def test_wings_may_be_in_a_circle_where_no_files_are(package: Package) -> None:
    folder = package(a__in__one="from house.b import two", a__in__three="", b__in__two="from house.a import three")
    assert shape.circles(known(folder).pairs) == []
    assert shape.circles(known(folder).between_wings) == [{"a", "b"}]


def test_a_class_name_is_repeated_where_two_files_define_it_at_the_top(package: Package) -> None:
    folder = package(
        a="class State: ...\nclass Only: ...\n",
        b__in__one="class State: ...\n",
        b__in__two="def f():\n    class State: ...\nclass Outer:\n    class Only: ...\n",
    )
    assert shape.repeated_classes(shape.sources(folder)) == {"State": ["a", "b/one"]}


def test_a_private_module_is_for_its_folder_and_the_folders_below(package: Package) -> None:
    folder = package(
        a__in___hidden="",
        a__in__beside="from house.a import _hidden\n",
        a__in__below__in__deep="from house.a._hidden import thing\n",
        b__in__outside="from house.a._hidden import thing\n",
        b__in___own__in__part="",
        c="from house.b._own import part\nfrom house.a import __version__\n",
        a__in____init__="",
    )
    assert known(folder).of_private_modules == {("b/outside", "a/_hidden"), ("c", "b/_own/part")}


def test_a_way_counts_each_file_once_and_each_return_to_a_wing() -> None:
    way = Way(["transport/http", "sources/otlp", "sources/rows", "pipeline/run", "sources/otlp", "transport/http"])
    assert way.files == {"transport/http", "sources/otlp", "sources/rows", "pipeline/run"}
    assert way.wings == ["transport", "sources", "pipeline", "sources", "transport"]
    assert way.returns == 2


def test_the_figures_are_those_of_the_source(package: Package) -> None:
    folder = package(__init__="", a__in__one="import house.b\n\n", a__in___two="class X: ...", b="class X: ...\n")
    assert shape.measure_source(folder) == {
        "entries at the top of monitor/": 3,
        "pairs of wings that know each other": 1,
        "circles of wings": 0,
        "circles of files": 0,
        "imports of _private modules across folders": 0,
        "class names with two meanings": 1,
        "product files": 4,
        "product lines": 4,
    }


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    """The figures of the product."""
    return shape.measure_source(ROOT / "monitor")


@pytest.mark.parametrize("figure", [name for name in shape.LIMITS if name != shape.FILES_PASSED])
def test_the_product_stays_within_its_limits(figures: dict[str, int], figure: str) -> None:
    assert figures[figure] <= shape.LIMITS[figure], what_exceeds(figure)


def what_exceeds(figure: str) -> object:
    trees = shape.sources(ROOT / "monitor")
    found = shape.imports(trees)
    return {
        "circles of wings": shape.circles(found.between_wings),
        "circles of files": shape.circles(found.pairs),
        "imports of _private modules across folders": sorted(found.of_private_modules),
        "class names with two meanings": shape.repeated_classes(trees),
    }.get(figure, figure)

"""What comes with the monitor: hashes for everything, nothing that runs at the start of Python."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import supply_chain
from tests.support.paths import ROOT

LOCKS = [
    "requirements.lock",
    "tests/requirements.lock",
    "tests/audit.txt",
    "docs/site/requirements.txt",
    "tests/mutants.txt",
]


def test_nothing_in_this_environment_runs_at_the_start_of_python_but_what_is_allowed() -> None:
    """The stolen LiteLLM releases came as a `.pth` file: installed, never imported, run by every Python."""
    assert supply_chain.unexpected(Path(sysconfig.get_path("purelib"))) == {}


def test_a_pth_file_of_a_distribution_or_of_none_is_found(tmp_path: Path) -> None:
    (tmp_path / "litellm_init.pth").write_text("import os")
    (tmp_path / "distutils-precedence.pth").write_text("import os")  # allowed, but not from this one
    (tmp_path / "sitecustomize.py").write_text("")
    (tmp_path / "_virtualenv.pth").write_text("import _virtualenv")
    information = tmp_path / "evil-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (information / "RECORD").write_text("distutils-precedence.pth,,\nevil.py,,\n")
    assert supply_chain.unexpected(tmp_path) == {
        "litellm_init.pth": "",
        "distutils-precedence.pth": "evil",
        "sitecustomize.py": "",
    }


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_one_version_and_a_hash(name: str) -> None:
    text = (ROOT / name).read_text()
    packages = re.split(r"\n(?=\S)", text.strip())
    assert len(packages) > 10
    pinned = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+.*--hash=sha256:", re.DOTALL)
    assert [one for one in packages if not pinned.match(one)] == []


def test_known_malware_and_known_faults_are_excluded_by_version() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    version = {name: tuple(int(part) for part in locked[name].split(".")) for name in ("litellm", "protobuf")}
    assert version["litellm"] >= (1, 83, 7)
    assert version["protobuf"] >= (6, 33, 5)


def test_a_fault_that_is_known_fails_the_audit_and_a_database_that_is_away_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = {"name": "a", "skip_reason": "Dependency not found on PyPI"}
    clean = {"name": "b", "version": "1", "vulns": []}
    faulty = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
    assert supply_chain.report("pypi", {"dependencies": [away, clean]}) == 0
    assert "1 of 2 locked packages looked up in pypi, 0 faults" in capsys.readouterr().out
    assert supply_chain.report("pypi", {"dependencies": [clean, faulty]}) == 1
    assert "c 2: CVE-1, mended in 3" in capsys.readouterr().out
    assert supply_chain.report("pypi", {"dependencies": [away]}) is None


@pytest.fixture
def audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Audit with a `pip-audit` that answers with these texts by database; without one it cannot reach it."""

    def audit(**answers: object) -> tuple[int, str]:
        for name, answer in answers.items():
            (tmp_path / name).write_text(json.dumps(answer))
        tool = tmp_path / "pip-audit"
        tool.write_text(TOOL.format(python=sys.executable, folder=tmp_path))
        tool.chmod(0o755)
        return supply_chain.audit(tmp_path), capsys.readouterr().out

    return audit


TOOL = """#!{python}
import pathlib, sys
database = sys.argv[sys.argv.index("--vulnerability-service") + 1]
print(pathlib.Path("{folder}", database).read_text())
"""


def test_the_second_database_is_asked_if_the_first_knows_no_package(audited: Callable[..., tuple[int, str]]) -> None:
    faulty = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
    status, said = audited(
        pypi={"dependencies": [{"name": "c", "skip_reason": "not found"}]}, osv={"dependencies": [faulty]}
    )
    assert (status, "CVE-1" in said) == (1, True)


def test_an_audit_that_reaches_no_database_says_so(audited: Callable[..., tuple[int, str]]) -> None:
    status, said = audited()
    assert (status, "NOTHING WAS LOOKED UP" in said) == (0, True)

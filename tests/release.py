"""Builds a release of the commit that is checked out: `make release`.

    python -m tests.release [--rehearse]

Writes wheel, source distribution, bill of materials, release notes and SHA256SUMS to dist/VERSION. Builds all of it
twice, from two copies of the commit, and compares the bytes; then installs the wheel into an empty environment and runs
the demo from there. Refuses changes that are not committed, and a version without a dated section in CHANGELOG.md;
`--rehearse` accepts a section that is `unreleased`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from monitor import __version__
from tests.support.paths import ROOT

TOOLS = ROOT / ".venv-audit" / "bin"
NOTES, SUMS, SBOM = "RELEASE_NOTES.md", "SHA256SUMS", "rag-monitor.cdx.json"
FIRING = "RagDefectRateHigh"
"""The alert that the demo raises."""

_DEMO_SECONDS = 600


class Refused(Exception):  # noqa: N818 - named after what was done, as the caller reads
    """Why there is no release, in one sentence."""


def release_notes(changelog: str, version: str, *, rehearse: bool = False) -> str:
    """Cut the section of `version` out of a changelog, without its heading. Raises `Refused`."""
    found = re.search(
        rf"^## {re.escape(version)}(?: \((?P<date>[^)]*)\))?\n(?P<text>.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise Refused(f"CHANGELOG.md has no section `## {version} (DATE)`")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"] or "") and not (rehearse and found["date"] == "unreleased"):
        raise Refused(f"CHANGELOG.md: write `## {version} (YYYY-MM-DD)`, with the day of the release")
    if not found["text"].strip():
        raise Refused(f"CHANGELOG.md: the section of {version} is empty")
    return found["text"].strip() + "\n"


def refuse_changes(root: Path) -> None:
    """Raise `Refused` where a checkout holds anything that is not committed."""
    changed = _said("git", "status", "--porcelain", cwd=root).splitlines()
    if changed:
        names = ", ".join(line[3:] for line in changed[:5]) + (", ..." if len(changed) > 5 else "")
        raise Refused(f"not everything is committed: {names}")


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of files that are not the same, byte by byte, in two folders."""
    first, second = (digests(folder) for folder in (one, other))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def checksums(folder: Path) -> str:
    """Return the lines of `SHA256SUMS`, as `sha256sum --check` reads them."""
    return "".join(f"{digest}  {name}\n" for name, digest in digests(folder).items())


def build(folder: Path, to: Path, notes: str, made_at: str) -> None:
    """Write everything to `to`, from a copy of the commit in `folder`. The wheel is built from the source archive."""
    surroundings = {"SOURCE_DATE_EPOCH": made_at}
    hatch = (sys.executable, "-m", "hatchling", "build", "-d", to, "-t")
    _said(*hatch, "sdist", cwd=folder, **surroundings)
    (archive,) = to.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as opened:
            opened.extractall(unpacked, filter="data")
        (top,) = Path(unpacked).iterdir()
        _said(*hatch, "wheel", cwd=top, **surroundings)
    _said(TOOLS / "python", "-m", "tests.supply_chain", "sbom", to / SBOM, cwd=folder, **surroundings)
    (to / NOTES).write_text(notes)
    (to / SUMS).write_text(checksums(to))


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel with the locked packages into a new environment in `folder`; its folder of programs."""
    uv = (sys.executable, "-m", "uv", "--quiet")
    _said(*uv, "venv", "--python", sys.executable, folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    into = (*uv, "pip", "install", "--python", programs / "python")
    _said(*into, "--require-hashes", "-r", ROOT / "requirements.lock", cwd=folder)
    _said(*into, "--no-deps", wheel, cwd=folder)
    return programs


def run_demo(programs: Path, folder: Path) -> str:
    """Run the demo until its alert fires, and stop it as a person would; the line of the alert. Raises `Refused`."""
    demo = subprocess.Popen(
        [programs / "rag-monitor", "demo"],
        cwd=folder,
        env=_surroundings({"PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    late = threading.Timer(_DEMO_SECONDS, demo.kill)
    late.start()
    assert demo.stdout is not None
    fired, said = "", ""
    try:
        for line in demo.stdout:
            said += line
            if not fired and FIRING in line:
                fired = line.strip()
                demo.send_signal(signal.SIGINT)
        status = demo.wait()
    finally:
        late.cancel()
        demo.kill()
    if not fired or status:
        raise Refused(f"the demo raised {'no' if not fired else 'an'} alert and ended with {status}:\n{said[-2000:]}")
    return fired


def release(*, rehearse: bool) -> Path:
    """Build and try everything; the folder in which it is. Raises `Refused`."""
    refuse_changes(ROOT)
    notes = release_notes((ROOT / "CHANGELOG.md").read_text(), __version__, rehearse=rehearse)
    made_at = _said("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    commit = _said("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    print(f"release: {__version__} of {commit[:12]}, SOURCE_DATE_EPOCH={made_at}")
    with tempfile.TemporaryDirectory(prefix="rag-monitor-release-") as made:
        built = [Path(made, name, "dist") for name in ("once", "and-once-more")]
        for to in built:
            copy = to.parent / "copy"
            copy.mkdir(parents=True)
            to.mkdir()
            archive = to.parent / "commit.tar"
            _said("git", "archive", "-o", archive, "HEAD", cwd=ROOT)
            with tarfile.open(archive) as opened:
                opened.extractall(copy, filter="data")
            build(copy, to, notes, made_at)
        if differs := differing(*built):
            raise Refused(f"two builds of the same commit differ: {', '.join(differs)}")
        print(f"release: built twice, the same bytes:\n{(built[0] / SUMS).read_text().rstrip()}")
        packages = sorted(path for path in built[0].iterdir() if path.suffix in (".whl", ".gz"))
        print(_said(TOOLS / "twine", "check", "--strict", *packages, cwd=ROOT).rstrip())
        (wheel,) = built[0].glob("*.whl")
        elsewhere = Path(made, "elsewhere")
        elsewhere.mkdir()
        programs = install(wheel, elsewhere)
        print(f"release: installed into an empty environment: {_said(programs / 'rag-monitor', '--version').strip()}")
        print(f"release: the demo runs from there: {run_demo(programs, elsewhere)}")
        final = ROOT / "dist" / __version__
        shutil.rmtree(final, ignore_errors=True)
        shutil.copytree(built[0], final)
    return final


def _surroundings(added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would show the checkout to a command."""
    foreign = ("PYTHONPATH", "VIRTUAL_ENV", "RAG_MONITOR_CONFIG")
    return {name: value for name, value in os.environ.items() if name not in foreign} | dict(added)


def _said(*command: object, cwd: Path | None = None, **added: str) -> str:
    """Return what a command prints. Raises `Refused` where it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=_surroundings(added), capture_output=True, text=True, check=False
    )
    if done.returncode:
        shown = " ".join(map(str, command[:4]))
        raise Refused(f"`{shown} ...` ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true", help="accept a section that is `unreleased`")
    chosen = parser.parse_args(arguments)
    try:
        folder = release(rehearse=chosen.rehearse)
    except Refused as refused:
        print(f"release: refused: {refused}", file=sys.stderr)
        return 1
    print(f"release: {'rehearsed; ' if chosen.rehearse else ''}everything is in {folder.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

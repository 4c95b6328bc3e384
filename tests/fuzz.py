"""Guided by coverage, with atheris (`pip install atheris==3.0.0`): `python -m tests.fuzz --target row --minutes 5`.

Without a target all have their turn. What breaks a target is printed and kept as `crash-*` in the folder of the run;
put it into `tests/data/fuzz/TARGET`, where CI replays it with all the others, without atheris.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.paths import ROOT

CORPUS = ROOT / "tests" / "data" / "fuzz"
NAMES = sorted(path.name for path in CORPUS.iterdir())


def fuzz(target: str, folder: str, seconds: int) -> None:
    """Fuzz one target in this process; ends it."""
    import atheris

    with atheris.instrument_imports(include=["monitor"]):  # nothing has imported it before
        from tests.support.fuzzing import TARGETS
    arguments = [
        sys.argv[0],
        folder,
        str(CORPUS / target),
        f"-max_total_time={seconds}",
        "-max_len=4096",
        "-timeout=10",
    ]
    atheris.Setup([*arguments, f"-artifact_prefix={folder}/", "-verbosity=0"], TARGETS[target])
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=NAMES, help="only this one")
    parser.add_argument("--minutes", type=float, default=5, help="for each target (5)")
    parser.add_argument("--folder", help="where the run keeps what it finds; by default a new one")
    asked = parser.parse_args(arguments)
    if asked.target and asked.folder:
        fuzz(asked.target, asked.folder, int(asked.minutes * 60))
        return 0
    worst = 0
    for target in [asked.target] if asked.target else NAMES:
        folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-"))
        options = ["--target", target, "--minutes", str(asked.minutes), "--folder", str(folder)]
        code = subprocess.run([sys.executable, "-m", "tests.fuzz", *options], check=False).returncode
        print(f"{target}: {'broken, see' if code else 'sound,'} {folder}")
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

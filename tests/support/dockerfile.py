"""A parser for our Dockerfiles: their instructions, and their build stage run in folders instead of a daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_CODE = shutil.ignore_patterns("__pycache__", "*.pyc")


class Instruction(NamedTuple):
    """One instruction: the number of its stage, its name, and the rest on one line."""

    stage: int
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Return its arguments, written as JSON, as is required without a shell."""
        found: list[str] = json.loads(self.text[self.text.index("[") :])
        return found


def read(path: Path) -> list[Instruction]:
    """Return all instructions, in order."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    found, stage = [], -1
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, text = line.strip().partition(" ")
            stage += name == "FROM"
            found.append(Instruction(stage, name, " ".join(text.split())))
    return found


def environment(instructions: list[Instruction]) -> dict[str, str]:
    """Return the variables that the `ENV` of the last stage sets."""
    last = instructions[-1].stage
    texts = [one.text for one in instructions if one.stage == last and one.name == "ENV"]
    return dict(pair.split("=", 1) for text in texts for pair in text.split())


def carry_out(steps: list[Instruction], context: Path, places: Mapping[str, Path], python: Path) -> None:
    """Run `COPY` and `RUN` of a build stage, with folders of this machine as `places`, and this Python on the path.

    The first place is the working directory.
    """
    work = next(iter(places.values()))
    for step in steps:
        if step.name == "COPY":
            *sources, target = step.text.split()
            for source in sources:
                to = work / target
                if (context / source).is_dir():
                    shutil.copytree(context / source, to, ignore=_CODE, dirs_exist_ok=True)
                else:
                    shutil.copy(context / source, to / Path(source).name if target.endswith("/") else to)
        elif step.name == "RUN" and not step.text.startswith(
            "apt-get"
        ):  # this machine has the packages, or does without
            command = re.sub("|".join(map(re.escape, places)), lambda found: str(places[found[0]]), step.text)
            variables = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
            variables.pop("PYTHONDONTWRITEBYTECODE", None)
            shell = ["/bin/sh", "-ec", command]
            done = subprocess.run(
                shell, cwd=work, env=variables, capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

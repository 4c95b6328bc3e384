"""Components of a plug-in, which every process of a monitor finds, including its workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_CODE = """
import os
import signal
import time
from typing import Annotated, ClassVar

from monitor.errors.deprecation import Deprecated
from monitor.plugins import DefectRule, Evaluator, Level, Scale, Score


class Sensitive(Evaluator):
    '''Does to its process what an answer asks for.'''

    name: ClassVar[str] = "sensitive"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(bad=0.0, good=0.5)
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)

    pause: Annotated[int, Deprecated(since="1.5", removed_in="2.0", instead="rest")] = 0
    rest: Annotated[int, Deprecated(since="1.6", removed_in="2.0")] = 0

    async def evaluate(self, case, judge):
        if "LOOP-IN-PYTHON" in case.response:
            while True:
                pass
        if "LOOP-IN-C" in case.response:
            sum(range(10**15))
        if "SLEEP" in case.response:
            time.sleep(10**6)
        if "WAIT-FOR " in case.response:
            while not os.path.exists(case.response.partition("WAIT-FOR ")[2]):
                time.sleep(0.05)
        if "EXIT" in case.response:
            os._exit(9)
        if "KILL" in case.response:
            os.kill(os.getpid(), signal.SIGKILL)
        if "RAISE" in case.response:
            raise RuntimeError(f"the answer was {case.response}")
        print("something on standard output")
        return Score(1.0, f"in process {os.getpid()}")
"""


def install(folder: Path) -> dict[str, str]:
    """Install the evaluator `sensitive` in `folder`; returns the environment in which it is found."""
    entry = {"evaluators": {"sensitive": "sensitive_plugin:Sensitive"}}
    return install_package(folder, "sensitive_plugin", {"sensitive_plugin.py": _CODE}, entry)


def install_package(
    folder: Path, name: str, files: Mapping[str, str], entries: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Install a package of these files in `folder`; returns the environment in which it is found.

    `entries` are its entry points: by folder of components, such as `sinks`, the object by the `type`.
    """
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    for file, code in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(code)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        f"[rag_monitor.{group}]\n" + "".join(f"{kind} = {target}\n" for kind, target in named.items())
        for group, named in entries.items()
    )
    (information / "entry_points.txt").write_text("\n".join(groups))
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}

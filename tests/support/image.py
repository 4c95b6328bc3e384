"""The file tree of `deploy/docker/Dockerfile`, made by its own steps, in a root that contains only Python."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import cache, dockerfile
from tests.support.tools import unavailable

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = REPOSITORY / "deploy" / "docker" / "Dockerfile"
SLIM = DOCKERFILE.parent / "slim.py"
USER = 65532
_NOT_PYTHON = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "__pycache__", "config-*")
_REFUSE_WRITE_AND_EXECUTE = 65  # prctl PR_SET_MDWE


def python() -> Path:
    """Return the image's Python, 3.13, if this machine has it; else this one."""
    script = "import sys; print(sys.executable)"
    if shutil.which("python3.13"):
        variables = {**os.environ, "PYENV_VERSION": "3.13"}
        found = subprocess.run(["python3.13", "-c", script], env=variables, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return Path(found.stdout.strip())
    return Path(sys.executable)


def dependencies() -> Path:
    """Return the result of the Dockerfile's first steps, from requirements.lock: /opt/rag-monitor. Made once."""

    def make(folder: Path) -> None:
        try:
            dockerfile.carry_out(
                _steps()[0], REPOSITORY, {"/build": folder, "/opt/rag-monitor": folder / "made"}, python()
            )
        except RuntimeError as error:
            unavailable(f"the tree of the image ({error})")

    recipe = hashlib.sha256(SLIM.read_bytes() + repr(_steps()[0]).encode()).hexdigest()[:12]
    return cache.made_once(f"image-{python().name}-{recipe}", REPOSITORY / "requirements.lock", make) / "made"


class Image:
    """A container's root as the Dockerfile makes it, and its user. Programs in it see no files outside."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instructions = dockerfile.read(DOCKERFILE)
        self.state = root / "var/lib/rag-monitor"

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program in it: without a shell, capabilities or memory that is both writable and executable."""

        def enter() -> None:
            os.chroot(self.root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            ctypes.CDLL(None).prctl(_REFUSE_WRITE_AND_EXECUTE, 1, 0, 0, 0)

        variables = dockerfile.environment(self.instructions)
        return subprocess.Popen(
            list(words),
            env=variables,
            preexec_fn=enter,  # noqa: PLW1509 - what it calls takes no lock
            text=True,
            **options,
        )

    def said(self, name: str) -> list[str]:
        """Return the words of the last `ENTRYPOINT`, `CMD` or `HEALTHCHECK`."""
        return [one for one in self.instructions if one.name == name][-1].words

    def writable(self) -> set[Path]:
        """Return the files and folders in it that its user may write to, without those below another one."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            for name in [*folders, *files]:
                path = Path(folder) / name
                status = path.lstat()
                ordinary = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
                if ordinary and (status.st_uid == USER or status.st_mode & 0o002):
                    found.add(path.relative_to(self.root))
            folders[:] = [name for name in folders if Path(folder, name).relative_to(self.root) not in found]
        return found


@contextmanager
def made() -> Iterator[Image]:
    """Make the image in a temporary folder. Needs root, like running containers."""
    if os.geteuid() != 0:
        unavailable("root, to change the root folder")
    opt, interpreter = dependencies(), python()
    root = Path(tempfile.mkdtemp(prefix="image.", dir=cache.root()))
    try:
        root.chmod(0o755)
        target = root / "opt/rag-monitor"
        target.parent.mkdir()
        shutil.copytree(opt, target, copy_function=os.link)
        state = root / "var/lib/rag-monitor"
        places = {"/build": root / "build", "/opt/rag-monitor": target, "/var/lib/rag-monitor": state}
        (root / "build").mkdir()
        shutil.copy(SLIM, root / "build")
        dockerfile.carry_out(_steps()[1], REPOSITORY, places, interpreter)
        shutil.rmtree(root / "build")
        os.chown(state, USER, USER)
        for name, minor in (("null", 3), ("urandom", 9)):  # as in every container
            (root / "dev").mkdir(exist_ok=True)
            os.mknod(root / "dev" / name, stat.S_IFCHR, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)
        _install_python(root, interpreter)
        yield Image(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _steps() -> tuple[list[dockerfile.Instruction], list[dockerfile.Instruction]]:
    """Return the build stage: up to the installation of the dependencies, and the rest."""
    steps = [one for one in dockerfile.read(DOCKERFILE) if one.stage == 0]
    first = next(at for at, one in enumerate(steps) if one.name == "RUN" and "requirements.lock" in one.text) + 1
    return steps[:first], steps[first:]


def _install_python(root: Path, interpreter: Path) -> None:
    """Copy /usr/bin/python3, its library, and the shared objects that they and C++ extensions load: like distroless."""
    script = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    library = Path(subprocess.check_output([interpreter, "-c", script], text=True).strip())
    program = root / "usr/bin/python3"
    program.parent.mkdir(parents=True)
    shutil.copy(interpreter.resolve(), program)
    shutil.copytree(library, root / "usr/lib" / library.name, ignore=_NOT_PYTHON)
    shared = _libc_and_cpp()
    loading = [interpreter.resolve(), *library.glob("lib-dynload/*.so"), *shared]
    listed = subprocess.run(["ldd", *loading], capture_output=True, text=True, check=False).stdout
    for name in {*re.findall(r"(/\S+) \(0x", listed), *shared}:
        to = root / name.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, to)


def _libc_and_cpp() -> list[str]:
    """Return the parts of the C library and the C++ library, which the image's base contains."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    parts = "c|m|rt|dl|pthread|util|resolv|nss_files|nss_dns|gcc_s|stdc\\+\\+"
    return re.findall(rf"\slib(?:{parts})\.so\.\d+ \([^)]*\) => (\S+)", listed)

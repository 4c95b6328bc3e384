"""Real containers without a registry or a daemon: images built by buildah, run by podman, in separate storage."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from monitor import __version__
from tests.support import cache
from tests.support.paths import ROOT
from tests.support.tools import PATIENCE, require, unavailable

STAND_INS = ROOT / "tests" / "containers" / "Dockerfile"
MONITOR = "localhost/rag-monitor:latest"
DEBIAN = "trixie"
"""The release of the images that `deploy/docker/Dockerfile` names."""
_MIRROR = "http://deb.debian.org/debian"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")

# crun fails if limits cannot be raised, and a container's systemd manages no control groups.
_ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""
Done = subprocess.CompletedProcess[str]


@functools.cache
def environment() -> dict[str, str]:
    """Return variables with which buildah and podman use storage in the cache folder, never the user's own."""
    if os.geteuid() != 0:
        unavailable("root, to run containers")
    folder = cache.root() / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    run = Path(tempfile.gettempdir()) / "rag-monitor-containers"
    (folder / "containers.conf").write_text(_ENGINE)
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{run}"\n'
    )
    settings = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
    return {**os.environ, "BUILDAH_ISOLATION": "chroot"} | {name: str(folder / one) for name, one in settings.items()}


def podman(*words: str | Path, check: bool = True, timeout: float = 120.0) -> Done:
    """Run podman; unless `check` is off, a failure fails the test with what podman wrote."""
    done = _run([require("podman", "podman"), *map(str, words)], timeout * PATIENCE)
    assert not check or done.returncode == 0, f"podman {' '.join(map(str, words))}: {done.stdout}{done.stderr}"
    return done


def build(name: str, dockerfile: Path, context: Path, *words: str) -> str:
    """Build an image as `docker build` would, and return what the build printed."""
    command = [require("buildah", "buildah"), "bud", "--format", "docker", "-t", name, "-f", str(dockerfile)]
    done = _run([*command, *words, str(context)], 3600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def _run(command: Sequence[str], seconds: float) -> Done:
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, errors="replace", timeout=seconds, check=False
    )


@functools.cache
def stand_in(target: str) -> str:
    """Return the name of the image of a target of `STAND_INS`, which is built once."""
    name = f"localhost/stand-in-{target}:{hashlib.sha256(STAND_INS.read_bytes()).hexdigest()[:12]}"
    if podman("image", "exists", name, check=False).returncode:
        build(name, STAND_INS, STAND_INS.parent, "--target", target, "--build-arg", f"DEBIAN={_debian()}")
    return name


@functools.cache
def _debian() -> str:
    """Make a small Debian with the authorities that this machine trusts: packages may come through its proxy."""
    name = f"localhost/{DEBIAN}:latest"
    if podman("image", "exists", name, check=False).returncode == 0:
        return name
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "root"
        strap = [require("debootstrap", "debootstrap"), "--variant=minbase", "--include=ca-certificates"]
        done = _run([*strap, DEBIAN, str(root), _MIRROR], 3600)
        if done.returncode:
            unavailable(f"Debian {DEBIAN} ({done.stdout[-500:]})")
        if _AUTHORITIES.exists():
            shutil.copy(_AUTHORITIES, root / _AUTHORITIES.relative_to("/"))
        (Path(made) / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
        build(name, Path(made) / "Dockerfile", Path(made))
    return name


@functools.cache
def monitor_image() -> tuple[str, str]:
    """Build `deploy/docker/Dockerfile` of this checkout; return the name of the image, and the build's output."""
    values = {"BUILD_BASE": stand_in("python"), "RUN_BASE": stand_in("python-run"), "VERSION": __version__}
    chosen = [word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")]
    return MONITOR, build(MONITOR, ROOT / "deploy" / "docker" / "Dockerfile", ROOT, *chosen)


def inspected(image: str) -> dict[str, Any]:
    """Return podman's description of an image; `Size` in bytes, unpacked."""
    (found,) = json.loads(podman("image", "inspect", image).stdout)
    return dict(found)


class Container:
    """A container that was started; removed, with its anonymous volumes, when its `running` ends."""

    def __init__(self, name: str) -> None:
        self.name = name

    def look(self) -> dict[str, Any]:
        """Return the output of `podman inspect` for it."""
        (found,) = json.loads(podman("inspect", self.name).stdout)
        return dict(found)

    def processes(self) -> dict[str, str]:
        """Return the kernel's status of its first process."""
        number = self.look()["State"]["Pid"]
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
        return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}

    def logs(self) -> str:
        """Return all of its output."""
        done = podman("logs", self.name)
        return done.stdout + done.stderr

    def printed(self) -> str:
        """Return its standard output."""
        return podman("logs", self.name).stdout

    def healthy(self) -> bool:
        """Return whether its health check command passes now, however long it takes on a busy machine."""
        kind, *command = self.look()["Config"]["Healthcheck"]["Test"]
        assert kind == "CMD", "a command that needs no shell"
        return podman("exec", self.name, *command, check=False).returncode == 0

    def stop(self, seconds: int = 10) -> int:
        """Send SIGTERM, and SIGKILL after `seconds`, like `docker stop`. Return the exit status."""
        podman("stop", "--time", str(seconds), self.name)
        return int(self.look()["State"]["ExitCode"])

    def ended(self) -> int:
        """Wait for its end, and return the exit status."""
        return int(podman("wait", self.name).stdout)


CAREFUL = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--user=65532", "--memory=256m")
"""The options with which our image must run: as documented, and with no more memory than a small node has."""


@contextlib.contextmanager
def running(image: str, *options: str, command: Sequence[str] = ()) -> Iterator[Container]:
    """Start a container in the background, without writable temporary folders other than its volumes."""
    name = f"rag-monitor-test-{uuid.uuid4().hex[:12]}"
    try:
        podman("run", "--detach", "--read-only-tmpfs=false", "--name", name, *options, image, *command)
        yield Container(name)
    finally:
        podman("rm", "--force", "--volumes", "--time", "1", name, check=False)


@contextlib.contextmanager
def volume() -> Iterator[str]:
    """A named volume with its initial content; removed at the end."""
    name = f"rag-monitor-test-{uuid.uuid4().hex[:12]}"
    podman("volume", "create", name)
    try:
        yield name
    finally:
        podman("volume", "rm", "--force", name, check=False)

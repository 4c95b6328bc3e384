"""The systemd unit: systemd reads it, and lets it do little."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support import deploy

UNIT = deploy.DEPLOY / "systemd" / "rag-monitor.service"
PROGRAM = "/opt/rag-monitor/bin/rag-monitor"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that this machine has: systemd looks for it."""
    text = UNIT.read_text()
    assert text.count(PROGRAM) == 1
    (tmp_path / UNIT.name).write_text(text.replace(PROGRAM, sys.executable))
    return tmp_path / UNIT.name


def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    done = deploy.systemd_analyze("verify", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_would_find_a_slip(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
    assert "ProtectHomes" in deploy.systemd_analyze("verify", unit).stderr


def test_its_exposure_is_low(unit: Path) -> None:
    """As systemd counts it, from 0 (nothing) to 10 (all that root may); what is left is the network, which it needs."""
    done = deploy.systemd_analyze("security", "--offline=true", "--no-pager", unit)
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(level) <= 1.2


def test_a_wrong_configuration_is_not_tried_again_and_again() -> None:
    """Exit status 2 is that of every command for it."""
    assert "RestartPreventExitStatus=2\n" in UNIT.read_text()

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.spool import SpoolFile


@pytest.fixture
def file(tmp_path: Path) -> SpoolFile:
    """A spool's file in a folder that does not exist yet."""
    return SpoolFile(tmp_path / "storage" / "spool.db")

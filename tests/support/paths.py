"""Where things are in the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
DOCS = ROOT / "docs"

"""What goes along with every page: its one style sheet, and headers that let it load and run nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

STYLE: Final = files("monitor.web").joinpath("templates/style.css").read_text(encoding="utf-8").strip()
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src 'self'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every page is sent with: no scripts, no frames, no other origin, no copies."""

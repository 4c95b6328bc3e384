"""`python -m tests.support.fetch`: builds the servers that take minutes to build, ahead of the tests."""

from __future__ import annotations

import contextlib

import pytest

from tests.backends import servers
from tests.support import collector, deploy, image, kafka, kubernetes

MADE = (
    collector._program,
    kafka._jars,
    kubernetes.made,
    image.dependencies,
    deploy._hadolint,
    deploy._compose,
    lambda: servers.environment("mlflow"),
    lambda: servers.environment("phoenix"),
)
"""The slowest first, then in the order in which the tests need them."""

if __name__ == "__main__":
    for make in MADE:
        with contextlib.suppress(pytest.fail.Exception, pytest.skip.Exception):  # reported by the test that needs it
            make()

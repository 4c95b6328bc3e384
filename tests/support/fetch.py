"""`python -m tests.support.fetch`: makes the servers that take minutes to make, while other things are done."""

from __future__ import annotations

from tests.support import collector, kafka

if __name__ == "__main__":
    kafka._jars()
    collector._program()

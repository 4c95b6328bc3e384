"""`python -m monitor`, and the command `rag-monitor`."""

from __future__ import annotations

import gc
import signal
import sys

from monitor.errors import ConfigError


def main() -> None:
    """Run the command line; a wrong configuration ends with a message and exit status 2, not a traceback."""
    if sys.argv[1:2] == ["run"]:
        signal.signal(
            signal.SIGHUP, signal.SIG_IGN
        )  # it asks for a reload, and must not end a process that is starting
    # Imported objects stay, and scanning them takes a tenth of the start. `cli.main` enables collection afterwards.
    gc.disable()
    gc.set_threshold(50_000, 20, 20)
    from monitor.cli.main import app  # noqa: PLC0415 - so that a failing import is reported like any other error

    try:
        app()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()

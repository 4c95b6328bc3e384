"""`python -m monitor`, and the command `rag-monitor`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from monitor.errors import ConfigError


def main() -> None:
    """Run the command line; a wrong configuration ends with a message and exit status 2, not a traceback."""
    _open_standard_streams()
    if sys.argv[1:2] == ["run"]:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it asks for a reload, and must not end a process that starts
    # Imported objects stay, and scanning them takes a tenth of the start. `cli.main` enables collection afterwards.
    gc.disable()
    gc.set_threshold(50_000, 20, 20)
    from monitor.cli.main import app  # noqa: PLC0415 - so that a failing import is reported like any other error

    try:
        app()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def _open_standard_streams() -> None:
    """Open to nothing what the parent process closed of standard input, output and error.

    A socket or a database would get its number instead: the event loop aborts when it closes such a socket, and what C
    libraries report is written into such a file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                stream = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115 - to the end
                os.set_inheritable(stream.fileno(), True)
                setattr(sys, name, stream)


if __name__ == "__main__":
    main()

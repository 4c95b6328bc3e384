"""Reads files that people write, in bounded time and memory.

At a reload, anything may be in place of such a file: a pipe that nothing writes to, or an endless device.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 10 * 1024**2


def read_file(path: Path, *, at_most: int = _MOST_BYTES, pipe: bool = False) -> bytes:
    """Return the content of a file of at most `at_most` bytes.

    `pipe`: also read a pipe, waiting for its writer; else it is refused. Raises `OSError`, whose `strerror` says why
    the file cannot be read.
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | (0 if pipe else os.O_NONBLOCK))

    try:
        with open(path, "rb", opener=opened) as file:  # `Path.open` takes no opener
            if not pipe and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
            content = file.read(at_most + 1)
    except ValueError:
        raise OSError(errno.EINVAL, "its name contains a null character", str(path)) from None
    if len(content) > at_most:
        raise OSError(errno.EFBIG, f"it is larger than {at_most:,} bytes", str(path))
    return content

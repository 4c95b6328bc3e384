"""Removes from an installed environment the files that the image never uses.

    python slim.py FOLDER            files that no part of the monitor loads; debug symbols, if binutils are installed
    python slim.py FOLDER --built    files that were needed only to build the package

`LEFT_OUT` is the complete list. A pattern that matches nothing is an error: the package has changed, so check it again.
Needs only Python, because the build stage runs it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """One part: why it is not needed, and glob patterns of the files to remove and of exceptions to keep."""

    why: str
    goes: tuple[str, ...]
    stays: tuple[str, ...] = ()


LEFT_OUT = (
    Part(
        "LiteLLM's gateway server: it needs FastAPI, which is not installed. What LiteLLM's client imports is kept",
        ("litellm/proxy/**/*",),
        (
            "litellm/proxy/__init__.py",
            "litellm/proxy/_types.py",
            "litellm/proxy/types_utils/*",
            "litellm/proxy/common_utils/*",
            "litellm/proxy/spend_tracking/*",
            "litellm/proxy/pass_through_endpoints/**/*",
            "litellm/proxy/openai_files_endpoints/common_utils.py",
            "litellm/proxy/guardrails/anthropic_sse.py",
            "litellm/proxy/guardrails/exception_utils.py",
            "litellm/proxy/_experimental/mcp_server/cost_calculator.py",
            "litellm/proxy/_experimental/mcp_server/stdio_gate.py",
            "litellm/proxy/_experimental/mcp_server/utils.py",
        ),
    ),
    Part(
        "LiteLLM's second implementation, in Rust: chat completions run in Python; only OCR and transcription need it",
        ("litellm/rust_bridge/_native.*",),
    ),
    Part(
        "descriptions of AWS services: models there are called over HTTP; botocore only signs and finds credentials",
        ("botocore/data/*", "boto3/data/*", "boto3/examples/*"),
        (
            "botocore/data/*.json*",
            "botocore/data/bedrock*",
            "botocore/data/sagemaker-runtime",
            "botocore/data/signin",
            "botocore/data/sso",
            "botocore/data/sso-oidc",
            "botocore/data/sts",
        ),
    ),
    Part(
        "downloads from Hugging Face: the monitor counts tokens with the bundled files, and downloads nothing",
        ("huggingface_hub*", "hf_xet*", "fsspec*", "filelock*", "tqdm*"),
    ),
    Part("Zstandard for PyPy: CPython uses the other module", ("zstandard/_cffi.*",)),
    Part(
        "sources of compiled modules, types, tests",
        ("**/*.pyx", "**/*.pxd", "**/*.pxi", "**/*.pyi", "**/*.c", "**/*.h", "**/tests"),
    ),
)

BUILT = (
    Part("programs: the image starts Python", ("bin",)),
    Part(
        "tools of the build: the package is built",
        ("hatchling*", "editables*", "tomlkit*", "pathspec*", "pluggy*", "trove_classifiers*"),
    ),
)


def slim(folder: Path, parts: Sequence[Part]) -> int:
    """Remove the parts, print a line for each, return their bytes. Raises `LookupError` if a pattern has no match."""
    freed = 0
    for part in parts:
        for pattern in (*part.goes, *part.stays):
            if next(folder.glob(pattern), None) is None:
                raise LookupError(f"nothing matches {pattern!r} of slim.py in {folder}: {part.why}")
        bytes_ = sum(_remove(path) for path in _going(folder, part))
        freed += bytes_
        print(f"{bytes_ / 1e6:6.1f} MB  {part.why}")  # noqa: T201
    return freed


def _going(folder: Path, part: Part) -> Iterator[Path]:
    kept = {path for pattern in part.stays for path in folder.glob(pattern)}
    above = {parent for path in kept for parent in path.parents}
    for path in sorted({path for pattern in part.goes for path in folder.glob(pattern)}):
        if not ({path, *path.parents} & kept or path in above):
            yield path


def _remove(path: Path) -> int:
    """Remove a file or folder and return its bytes. It may already be gone with its parent folder."""
    size = size_of(path)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return size


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if there is none."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.lstat().st_size for one in files if one.is_file())


def strip(folder: Path) -> int | None:
    """Remove debug symbols from compiled modules; return the bytes saved, or None if binutils' `strip` is missing."""
    program = shutil.which("strip")
    if program is None:
        return None
    modules = sorted(folder.rglob("*.so"))
    before = sum(map(size_of, modules))
    subprocess.run([program, "--strip-unneeded", "--", *modules], check=True)  # noqa: S603 - ours
    return before - sum(map(size_of, modules))


def main(arguments: Sequence[str]) -> None:
    """Run one of the two commands in the module docstring."""
    folder = Path(arguments[0])
    if arguments[1:] == ["--built"]:
        slim(folder, BUILT)
    else:
        slim(folder, LEFT_OUT)
        stripped = strip(folder)
        print("debug symbols stay: no binutils" if stripped is None else f"{stripped / 1e6:6.1f} MB  debug symbols")  # noqa: T201
    print(f"{size_of(folder) / 1e6:6.1f} MB  left in {folder}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m tests.support.surface`: what packages outside may build on, one line a name, as the source states it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("monitor.errors", "monitor.model", "monitor.stages")
"""Public: these modules, with all that is in them. `docs/stability.md` says what that means."""

_PAGES = ("monitor.stages",)
"""Imported from as a whole, whatever files they consist of."""


def render() -> str:
    """Every public name of `MODULES` with its fields, methods and their signatures, in the order of the names."""
    lines: list[str] = []
    for module, files in _files():
        entries = sorted(entry for path in files for entry in _entries(ast.parse(path.read_text())))
        if entries:
            lines += [f"# {module}", ""]
        for _, entry in entries:
            lines += [*entry, ""]
    return "\n".join(lines)


def _files() -> Iterator[tuple[str, list[Path]]]:
    for module in MODULES:
        place = ROOT.joinpath(*module.split("."))
        inner = sorted(place.glob("*.py"))
        if module in _PAGES or not inner:
            yield module, inner or [place.with_suffix(".py")]
        else:
            yield from ((f"{module}.{path.stem}", [path]) for path in inner)


def _entries(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in tree.body:
        for name, line in _stated(node):
            inner = [f"    {one}" for part in getattr(node, "body", ()) for _, one in _stated(part)]
            yield name, [line, *(inner if isinstance(node, ast.ClassDef) else [])]


def _stated(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The public name that a statement gives something, and the statement without what is behind it."""
    match node:
        case ast.ClassDef(name=name):
            line = f"class {name}({', '.join(map(ast.unparse, [*node.bases, *node.keywords]))})".replace("()", "")
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            line = f"{kind} {name}({ast.unparse(node.args)}){answer}"
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            line = ast.unparse(node)
        case _:
            return
    if not name.startswith("_") or name == "__init__":
        decorators = [f"@{ast.unparse(one)} " for one in getattr(node, "decorator_list", ())]
        yield name, "".join(decorators) + line


if __name__ == "__main__":
    print(render(), end="")

"""`python -m tests.support.surface`: the public API for programs and plug-ins, as stated in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("monitor", "monitor.plugins", "monitor.testing")
"""Public: every name in `__all__` of these. `docs/stability.md` says what that means."""


def render() -> str:
    """Return every public name with its fields, methods and signatures, under the first module that exports it."""
    lines: list[str] = []
    told: dict[tuple[str, str], str] = {}
    for module in MODULES:
        lines += [f"# {module}", ""]
        for name in names(module):
            home = home_of(module, name)
            if home in told:
                lines += [f"{name}: see {told[home]}", ""]
            else:
                told[home] = module
                lines += [*_entry(*home, shown=name), ""]
    return "\n".join(lines)


def names(module: str) -> list[str]:
    """Return the names in `__all__` of a module."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has no __all__")


def home_of(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines what `module` exports as `name`, and its name there."""
    body = [inner for node in _tree(module).body for inner in (node.body if isinstance(node, ast.If) else [node])]
    for node in body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return home_of(str(node.module), alias.name)
        elif any(stated == name for stated, _ in _stated(node)):
            return module, name
    raise AssertionError(f"{module} does not define {name}")


@cache
def _tree(module: str) -> ast.Module:
    place = ROOT.joinpath(*module.split("."))
    return ast.parse((place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text())


def _entry(module: str, name: str, shown: str) -> list[str]:
    for node in _tree(module).body:
        for stated, line in _stated(node):
            if stated == name:
                parts = node.body if isinstance(node, ast.ClassDef) else []
                inner = [f"    {one}" for part in parts for own, one in _stated(part) if _public(own)]
                return [line if shown == name else f"{shown} = {line}", *inner]
    raise AssertionError(f"{module} does not define {name}")


def _public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__getitem__")


def _stated(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names that a statement defines, each with the statement without its body."""
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
    decorators = [f"@{ast.unparse(one)} " for one in getattr(node, "decorator_list", ())]
    yield name, "".join(decorators) + line


if __name__ == "__main__":
    print(render(), end="")

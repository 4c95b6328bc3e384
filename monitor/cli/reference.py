"""`rag-monitor reference`: print a reference page."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.operations.reference import Page, render


def reference(page: Annotated[Page, typer.Argument(help="The page to print.")]) -> None:
    """Print a reference page in Markdown: docs/configuration.md, docs/metrics.md or docs/evaluators/README.md."""
    typer.echo(render(page), nl=False)

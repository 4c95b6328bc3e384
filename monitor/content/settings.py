"""What a user says of a service that reads differently from all others: its prompts, its attributes, its spans."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from monitor.content.mapping import AttributeMap
from monitor.content.template import Template


def _invertible(template: str) -> str:
    Template.parse(template)
    return template


class ReadingSettings(BaseModel):
    """How traces are read, beyond what the dialects know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    prompt_templates: tuple[Annotated[str, AfterValidator(_invertible)], ...] = ()
    """The service's own prompt templates, with `{context}` and, where the same message states it, `{question}`; other
    placeholders are allowed and ignored. A prompt that was made with one of them is taken apart exactly; other prompts
    are split at the usual marks."""

    attributes: AttributeMap = AttributeMap()
    """Span attributes of a home-grown instrumentation, and what they hold. `rag-monitor cases --explain` shows whether
    it works."""

    orphans_are_roots: bool = False
    """Take a span whose parent never came for the top of its request. For services whose enclosing spans (of an HTTP
    server, say) go to another backend only; elsewhere it makes whole requests of lost parts. A lone span that states
    question and answer needs no such permission."""

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The prompt templates, parsed."""
        return tuple(Template.parse(one) for one in self.prompt_templates)

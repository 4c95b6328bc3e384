"""The section `ui` of the configuration."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from monitor.stages import Component

TRIAL_PATHS: Final = frozenset({"/try", "/api/v1/try"})
NOTE_PATHS: Final = frozenset({"/note", "/api/v1/notes"})
REVIEW_PATHS: Final = frozenset({"/review/in", "/review/out", "/review/label", "/api/v1/review/labels"})
"""The paths that accept posts."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ALLOWED = ("trace_id", "span_id")


def _web_address(url: str) -> str:
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address must have no user name and no password: it goes out with every alert")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("an address must be plain ASCII without spaces")
    _ = parts.port  # raises if it is not a port
    return url


def _public(url: str) -> str:
    parts = urlsplit(_web_address(url))
    if parts.query or parts.fragment:
        raise ValueError("the address of the UI must have no `?` and no `#`")
    return url.rstrip("/")


def _template(url: str) -> str:
    unknown = [name for name in _PLACEHOLDER.findall(url) if name not in _ALLOWED]
    if unknown:
        raise ValueError(f"`{{{unknown[0]}}}` is not a known placeholder; allowed: {{trace_id}}, {{span_id}}")
    _web_address(_PLACEHOLDER.sub("0", url))
    if url and "{trace_id}" not in url:
        raise ValueError("a template needs `{trace_id}`")
    return url


class UiSettings(Component):
    """The built-in UI, served by the sink `prometheus` beside `/metrics`."""

    enabled: bool = True
    """Serve the UI. It shows questions and answers only if `storage.texts` is `all`."""

    trace_url: Annotated[str, AfterValidator(_template)] = ""
    """Address of a trace in your tracing UI, such as `https://jaeger.example.com/trace/{trace_id}`; `{span_id}` is the
    span of the answer's generation. Default: no link."""

    url: Annotated[str, AfterValidator(_public)] = ""
    """Public address of the UI, such as `https://rag-monitor.example.com`. With it, alerts link to the answers they
    are about (annotation `answers_url`) and to their incident (`incident_url`), and the port accepts requests for this
    host name, in addition to those in `hosts` of the sink `prometheus`."""

    max_trials_per_hour: Annotated[int, Field(ge=0, le=1000)] = 30
    """Maximum number of trials that people may start per hour on the page of a case. A trial asks the judge one to five
    times, which costs money, and shows the prompt, the reply and the result; it affects no rate. 0: no trials."""

    @property
    def names(self) -> tuple[str, ...]:
        """The host name in `url`, if there is one."""
        public = urlsplit(self.url).hostname
        return (public,) if public else ()

    def trace_link(self, trace_id: str, span_id: str) -> str:
        """Return the address of a trace in the tracing UI; empty without `trace_url`, or if the trace has no id."""
        if not self.trace_url or not trace_id:
            return ""
        ids = {"trace_id": trace_id, "span_id": span_id}
        return _PLACEHOLDER.sub(lambda found: quote(ids[found[1]], safe=""), self.trace_url)

"""The section `ui` of the configuration."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from monitor.stages import Component

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_ALLOWED = ("trace_id", "span_id")


def _web_address(url: str) -> str:
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address must begin with http:// or https:// and name a host")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("an address must be plain ASCII without spaces")
    _ = parts.port  # raises where it is not a port
    return url


def _public(url: str) -> str:
    parts = urlsplit(_web_address(url))
    if parts.query or parts.fragment:
        raise ValueError("an address under which a page is reached has no `?` and no `#`")
    return url.rstrip("/")


def _host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a host's name such as `rag-monitor.monitoring.svc.cluster.local`: no port, no `*`"
        )
    return name.rstrip(".").lower()


def _template(url: str) -> str:
    unknown = [name for name in _PLACEHOLDER.findall(url) if name not in _ALLOWED]
    if unknown:
        raise ValueError(f"`{{{unknown[0]}}}` is not filled in; allowed: {{trace_id}}, {{span_id}}")
    _web_address(_PLACEHOLDER.sub("0", url))
    if url and "{trace_id}" not in url:
        raise ValueError("a template needs `{trace_id}`")
    return url


class PageSettings(Component):
    """The built-in page, which the sink `prometheus` serves beside `/metrics`."""

    enabled: bool = True
    """Serve it. It shows the texts of questions and answers only where `storage.texts` says `all`."""

    trace_url: Annotated[str, AfterValidator(_template)] = ""
    """Where a trace is shown in your tracing UI, such as `https://jaeger.example.com/trace/{trace_id}`; `{span_id}` is
    that of the answer's generation. Default: no link."""

    url: Annotated[str, AfterValidator(_public)] = ""
    """The address under which people reach the page, such as `https://rag-monitor.example.com`. Then alerts carry a
    link to the answers they are about, `answers_url`, and the page is served under this name. Without a token it is
    served only under addresses and names without a dot otherwise, so that no foreign website can read it."""

    hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Further names under which the page is served where it asks for no token, such as
    `[rag-monitor.monitoring.svc.cluster.local]`: names that nobody outside can bind to an address of yours. A list, and
    no switch, since a website whose name somebody else owns could otherwise read the page with your browser."""

    max_trials_per_hour: Annotated[int, Field(ge=0, le=1000)] = 30
    """How often an hour people may try an evaluator on a case from its page, which shows the prompt, the reply and the
    verdict. It asks the judge one to five times, is paid for, and touches no rate. 0: there is no such button."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name in `url`, if there is one, and `hosts`."""
        public = urlsplit(self.url).hostname
        return (*((public,) if public else ()), *self.hosts)

    def trace_link(self, trace_id: str, span_id: str) -> str:
        """The address of a trace in the tracing UI; empty where none is known, or the trace has no id."""
        if not self.trace_url or not trace_id:
            return ""
        ids = {"trace_id": trace_id, "span_id": span_id}
        return _PLACEHOLDER.sub(lambda found: quote(ids[found[1]], safe=""), self.trace_url)

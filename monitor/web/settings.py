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
        raise ValueError("the address of the UI must have no `?` and no `#`")
    return url.rstrip("/")


def _host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a host name such as `rag-monitor.monitoring.svc.cluster.local`: no port, no `*`"
        )
    return name.rstrip(".").lower()


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
    """Serve the UI. It shows questions and answers only where `storage.texts` is `all`."""

    trace_url: Annotated[str, AfterValidator(_template)] = ""
    """Address of a trace in your tracing UI, such as `https://jaeger.example.com/trace/{trace_id}`; `{span_id}` is the
    span of the answer's generation. Default: no link."""

    url: Annotated[str, AfterValidator(_public)] = ""
    """Public address of the UI, such as `https://rag-monitor.example.com`. With it, alerts link to the answers they are
    about (annotation `answers_url`), and the UI is served under this host name. Without a token it is otherwise served
    only under IP addresses and names without a dot, so that no other website can read it."""

    hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Further host names to serve the UI under where it requires no token, such as
    `[rag-monitor.monitoring.svc.cluster.local]`. List only names that no outsider can point at your address: a website
    under such a name could read the UI through a visitor's browser."""

    max_trials_per_hour: Annotated[int, Field(ge=0, le=1000)] = 30
    """How many trials people may start per hour on the page of a case. A trial asks the judge one to five times, which
    costs money, and shows the prompt, the reply and the result; it affects no rate. 0: no trials."""

    @property
    def names(self) -> tuple[str, ...]:
        """The host name in `url`, if there is one, and `hosts`."""
        public = urlsplit(self.url).hostname
        return (*((public,) if public else ()), *self.hosts)

    def trace_link(self, trace_id: str, span_id: str) -> str:
        """Return the address of a trace in the tracing UI; empty without `trace_url`, or where the trace has no id."""
        if not self.trace_url or not trace_id:
            return ""
        ids = {"trace_id": trace_id, "span_id": span_id}
        return _PLACEHOLDER.sub(lambda found: quote(ids[found[1]], safe=""), self.trace_url)

"""An alert in a few lines for people: what chats and pagers show.

Names of apps and versions come from traces and are untrusted: in these lines they cannot format text, make links, or
mention people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from monitor.alerts.catalogue import ANNOTATION, DIAGNOSIS, DIAGNOSIS_URL
from monitor.alerts.incidents import URL_ANNOTATION
from monitor.alerts.notify.delivery_state import Notice
from monitor.quantities import human_duration

_LONGEST_NAME: Final = 100
_LONGEST_LINK: Final = 2_000
_MARKUP: Final = str.maketrans({"*": "\u2217", "`": "'", "~": "\u223c", "[": "(", "]": ")", "|": "\u00a6"})
_CALLS: Final = re.compile(r"@|://|(?i:www\.)")
_BREAK: Final = "\u200b"  # zero-width space: breaks up mentions and links


def title(notice: Notice) -> str:
    """Return the alert's name and subject, the same when it fires and when it is resolved.

    Pagers match the two by it: `RagDefectRateHigh (critical): shop, groundedness`.
    """
    labels = notice.state.labels
    about = [plain(labels[key], _LONGEST_NAME) for key in ("app", "evaluator", "defect_rule") if labels.get(key)]
    return f"{notice.state.name} ({notice.state.severity.value})" + (f": {', '.join(about)}" if about else "")


def status(notice: Notice) -> str:
    """Return `Firing`, `Diagnosis` if only that is new, or `Resolved after 12 min`."""
    if notice.late:
        return "Diagnosis"
    if notice.ended is None:
        return "Firing"
    return f"Resolved after {human_duration(max(notice.ended - notice.state.since, 0.0))}"


def description(notice: Notice, longest: int) -> str:
    """Return what was found when the alert last fired, and its diagnosis, in at most `longest` characters.

    For a late diagnosis, return only the diagnosis.
    """
    found, parts = notice.state.annotations, (DIAGNOSIS,) if notice.late else ("description", DIAGNOSIS)
    return plain(" ".join(found[name] for name in parts if found.get(name)), longest)


def links(notice: Notice) -> Iterator[tuple[str, str]]:
    """Yield the pages about the alert, as name and URL; each URL is one word without any markup."""
    named = (
        ("Incident", URL_ANNOTATION),
        ("Runbook", "runbook_url"),
        ("Answers", ANNOTATION),
        ("Diagnosis", DIAGNOSIS_URL),
    )
    for name, key in named:
        url = notice.state.annotations.get(key, "")
        safe = url.isascii() and url.isprintable() and not set(url) & set(" <>|\"'`")
        if safe and len(url) <= _LONGEST_LINK and urlsplit(url).scheme in ("http", "https"):
            yield name, url


def plain(text: str, longest: int) -> str:
    """Return a text on one line without formatting, links or mentions, in about `longest` characters."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text[: 2 * longest]).split())
    line = f"{line[: longest - 3]}..." if len(line) > longest else line
    return _CALLS.sub(lambda found: f"{found[0][:-1]}{_BREAK}{found[0][-1]}{_BREAK}", line.translate(_MARKUP))

"""The small world of the recordings: documents, requests, what is found and what is answered. Standard library only.

The same data lies in `library.json` for applications in other languages. An application asks `CASES` one after the
other and calls `asked` after each; see README.md.
"""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

_DATA = json.loads((Path(__file__).parent / "library.json").read_text(encoding="utf-8"))

DOCUMENTS: dict[str, dict[str, str]] = {one["id"]: one for one in _DATA["documents"]}
CASES: list[dict[str, Any]] = _DATA["cases"]


def search(query: str) -> list[dict[str, Any]]:
    """What the knowledge base finds for a question or search query: `id`, `uri`, `text`, `score`, the best first."""
    for case in CASES:
        for one in case.get("searches", ()):
            if one["query"] == query:
                return _found(one["documents"])
    for case in CASES:
        if query in (case["question"], case.get("search_query")):
            return _found(case["documents"])
    raise LookupError(f"nobody asks {query!r}; the questions are those of library.json")


def case(name: str) -> dict[str, Any]:
    """The case with this name."""
    return next(one for one in CASES if one["name"] == name)


def asked(case: dict[str, Any], **also: Any) -> None:
    """Report that the application has answered `case`. Waits until its spans have arrived.

    Call it after each request, when all spans have ended. `also` overrides or adds facts: `flavour` (which of several
    ways the application was written), `contexts` (texts that really reached the prompt, where that is not
    `case["documents"]`), `trace_id` (hex, where one request makes several traces), `session_id` (None where the
    set-up does not send it), `history`, `question`, `answer`, `model`, `total_tokens`; `status`, where what is sent
    cannot be read in full (`content_missing`, `incomplete`, `no_request`) although the application has answered, or
    `not_recorded` where only texts of documents are missing.
    """
    body = json.dumps({"case": case["name"], **also}).encode()
    request = urllib.request.Request(os.environ["FACTS_URL"], body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def _found(ids: list[str]) -> list[dict[str, Any]]:
    return [{**DOCUMENTS[one], "score": round(0.91 - 0.17 * at, 2)} for at, one in enumerate(ids)]

"""What of a case a judge is shown, each part under a name of ours and in one order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from monitor.model.case import Case

_WRITTEN: Final[Mapping[str, Callable[[Case], str]]] = {
    "context": lambda case: listed(
        {"document": number, "text": document.content} for number, document in enumerate(case.retrieved_context, 1)
    ),
    "history": lambda case: listed({"role": turn.role, "content": turn.content} for turn in case.request.history),
    "query": lambda case: case.request.query,
    "reference": lambda case: case.expected_response or "",
    "response": lambda case: case.response,
}
MATERIALS: Final = tuple(_WRITTEN)
"""The parts there are, in the order in which they are shown: what several questions about one case share comes first,
since providers charge less for a beginning that they have just seen."""


def material(case: Case, names: Iterable[str]) -> dict[str, str]:
    """These parts of the case, in the order given."""
    return {name: _WRITTEN[name](case) for name in names}


def listed(items: Iterable[Mapping[str, Any]]) -> str:
    """JSON: the border between two documents cannot be forged from within one."""
    return json.dumps(list(items), ensure_ascii=False, indent=1)

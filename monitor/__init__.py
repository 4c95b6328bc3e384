"""rag-monitor: the online quality monitor that runs beside a production RAG service.

This module has the names that Python programs use (docs/python.md); plug-ins use `monitor.plugins`, and their tests
`monitor.testing`. Each name is imported when it is first used, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.errors import ConfigError, InvalidData
    from monitor.model.case import Case, Document, Message
    from monitor.operations.offline.evaluate import Evaluation, aevaluate, evaluate
    from monitor.operations.offline.summary import DefectRate, EvaluatorSummary

__version__ = "0.1.0"

__all__ = [
    "Case",
    "ConfigError",
    "DefectRate",
    "Document",
    "Evaluation",
    "EvaluatorSummary",
    "InvalidData",
    "Message",
    "__version__",
    "aevaluate",
    "evaluate",
]

_HOME = {
    "Case": "monitor.model.case",
    "ConfigError": "monitor.errors",
    "DefectRate": "monitor.operations.offline.summary",
    "Document": "monitor.model.case",
    "Evaluation": "monitor.operations.offline.evaluate",
    "EvaluatorSummary": "monitor.operations.offline.summary",
    "InvalidData": "monitor.errors",
    "Message": "monitor.model.case",
    "aevaluate": "monitor.operations.offline.evaluate",
    "evaluate": "monitor.operations.offline.evaluate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""People's labels from and to MLflow 3: assessments of traces with the source HUMAN.

API: `GET /api/3.0/mlflow/traces/{id}`, `POST .../assessments` and `DELETE .../assessments/{id}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from monitor.model.label import Label
from monitor.operations.labels.reading import LabelFile, VerdictWords, parse_time
from monitor.operations.labels.server import (
    NOT_THERE,
    OURS,
    Annotations,
    LabelServer,
    ResultRef,
    SentLabels,
    a_string,
    an_object,
    objects,
)
from monitor.operations.labels.writing import iso, label_row
from monitor.sinks.mlflow import Mlflow


class MlflowLabels(LabelServer):
    """MLflow 3: assessments of traces with the source HUMAN."""

    def __init__(self, sink: Mlflow, *, name: str = "") -> None:
        verify = sink.tls.context() if sink.tls is not None else True
        super().__init__(sink.url, sink.headers(), verify=verify, timeout=sink.timeout, name=name)

    def pull(self, results: Sequence[ResultRef], words: VerdictWords) -> LabelFile:
        """See `LabelServer`. Requests each trace once."""
        wanted: dict[str, dict[str, str]] = {}
        for one in results:
            if trace := _mlflow_trace(one):
                wanted.setdefault(trace, {})[self.annotation(one.evaluator)] = one.evaluator
        asked = {_mlflow_trace(one): one for one in results}
        read = Annotations(words)
        for trace, names in wanted.items():
            found = self.call("GET", f"/api/3.0/mlflow/traces/{quote(trace, safe='')}", also=NOT_THERE)
            for assessment in _assessments(found):
                source = an_object(assessment.get("source"))
                evaluator = names.get(a_string(assessment.get("assessment_name")))
                if evaluator is None or source.get("source_type") != "HUMAN" or _is_ours(assessment):
                    continue
                if assessment.get("valid") is False:
                    continue  # replaced by a later one
                read.add(
                    f"assessment {a_string(assessment.get('assessment_id'))}",
                    an_object(assessment.get("feedback")).get("value"),
                    request_id=asked[trace].request_id,
                    evaluator=evaluator,
                    reviewer=a_string(source.get("source_id")),
                    comment=a_string(assessment.get("rationale")),
                    at=parse_time(assessment.get("last_update_time")),
                )
        return read.file()

    def push(self, labels: Sequence[Label], results: Mapping[str, ResultRef]) -> SentLabels:
        """See `LabelServer`."""
        sent = SentLabels()
        for label in labels:
            ref = results.get(label.result_id)
            trace = _mlflow_trace(ref) if ref is not None else ""
            if not trace:
                sent.without_trace += 1
                continue
            path = f"/api/3.0/mlflow/traces/{quote(trace, safe='')}"
            found = self.call("GET", path, also=NOT_THERE)
            if found is None:
                sent.problems.append(f"trace {trace}: not in MLflow")
                continue
            label_of = f"{label.result_id} {label.reviewer}"
            for earlier in _assessments(found):
                if _is_ours(earlier) and an_object(earlier.get("metadata")).get("label_of") == label_of:
                    self.call("DELETE", f"{path}/assessments/{quote(a_string(earlier.get('assessment_id')), safe='')}")
            row = {key: str(value) for key, value in label_row(label).items() if value is not None}
            assessment = {
                "assessment_name": self.annotation(label.evaluator),
                "trace_id": trace,
                "source": {"source_type": "HUMAN", "source_id": label.reviewer},
                "create_time": iso(label.at),
                "last_update_time": iso(label.at),
                "feedback": {"value": label.verdict.value},
                "rationale": label.comment,
                "metadata": row | {"origin": OURS, "label_of": label_of},
                "valid": True,
            }
            self.call("POST", f"{path}/assessments", {"assessment": assessment})
            sent.labels += 1
        return sent


def _assessments(answer: Any) -> list[dict[str, Any]]:
    info = an_object(an_object(an_object(answer).get("trace")).get("trace_info"))
    return objects(info.get("assessments"))


def _is_ours(assessment: Mapping[str, Any]) -> bool:
    return an_object(assessment.get("metadata")).get("origin") == OURS


def _mlflow_trace(one: ResultRef) -> str:
    trace = f"tr-{one.trace_id}" if one.trace_id else one.request_id
    return trace if trace.startswith("tr-") else ""

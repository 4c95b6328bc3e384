"""People's labels from and to Phoenix: annotations of spans with the annotator HUMAN, in one project.

API: `GET /v1/projects/{project}/span_annotations` and `POST /v1/span_annotations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from monitor.errors import MonitorError
from monitor.model.label import Label, LabelVerdict
from monitor.operations.labels.reading import LabelFile, VerdictWords, parse_time
from monitor.operations.labels.server import (
    NOT_THERE,
    OURS,
    PAGES_AT_MOST,
    Annotations,
    LabelServer,
    ResultRef,
    SentLabels,
    a_string,
    an_object,
    objects,
)
from monitor.operations.labels.writing import label_row
from monitor.sinks.phoenix import Phoenix

_SPANS_AT_ONCE: Final = 100


class PhoenixLabels(LabelServer):
    """Phoenix: annotations of spans with the annotator HUMAN, in one project."""

    def __init__(self, sink: Phoenix, *, name: str = "", project: str = "default") -> None:
        verify = sink.tls.context() if sink.tls is not None else True
        super().__init__(sink.url, sink.headers(), verify=verify, timeout=sink.timeout, name=name)
        self._project = project

    def pull(self, results: Sequence[ResultRef], words: VerdictWords) -> LabelFile:
        """See `LabelServer`. If an annotation has both a label and a score, the label counts."""
        wanted = {(one.span_id, self.annotation(one.evaluator)): one.evaluator for one in results if one.span_id}
        names, read = sorted({name for _, name in wanted}), Annotations(words)
        spans = sorted({span for span, _ in wanted})
        for first in range(0, len(spans), _SPANS_AT_ONCE):
            for one in self._annotations(spans[first : first + _SPANS_AT_ONCE], names):
                span, identifier = a_string(one.get("span_id")), a_string(one.get("identifier"))
                evaluator = wanted.get((span, a_string(one.get("name"))))
                if evaluator is None or one.get("annotator_kind") != "HUMAN" or identifier.startswith(f"{OURS}:"):
                    continue
                said = an_object(one.get("result"))
                value = said.get("label") if said.get("label") not in (None, "") else said.get("score")
                if value is None:
                    continue  # a note
                read.add(
                    f"annotation {a_string(one.get('id'))}",
                    value,
                    span_id=span,
                    evaluator=evaluator,
                    reviewer=a_string(one.get("user_id")) or identifier,
                    comment=a_string(said.get("explanation")),
                    at=parse_time(one.get("updated_at")),
                )
        return read.file()

    def _annotations(self, spans: Sequence[str], names: Sequence[str]) -> Iterator[dict[str, Any]]:
        query = [("span_ids", one) for one in spans] + [("include_annotation_names", one) for one in names]
        path = f"/v1/projects/{quote(self._project, safe='')}/span_annotations"
        cursor = ""
        for _ in range(PAGES_AT_MOST):
            more = [("cursor", cursor)] if cursor else []
            page = self.call("GET", f"{path}?{urlencode([*query, ('limit', 1000), *more])}", also=NOT_THERE)
            if page is None:
                raise MonitorError(f"{self.where} has no project {self._project!r}: set --project")
            yield from objects(an_object(page).get("data"))
            cursor = a_string(an_object(page).get("next_cursor"))
            if not cursor:
                return

    def push(self, labels: Sequence[Label], results: Mapping[str, ResultRef]) -> SentLabels:
        """See `LabelServer`."""
        sent, data = SentLabels(), []
        for label in labels:
            ref = results.get(label.result_id)
            if ref is None or not ref.span_id:
                sent.without_trace += 1
                continue
            score = {LabelVerdict.GOOD: 1.0, LabelVerdict.DEFECT: 0.0}.get(label.verdict)
            result = {"label": label.verdict.value, "score": score, "explanation": label.comment or None}
            data.append(
                {
                    "span_id": ref.span_id,
                    "name": self.annotation(label.evaluator),
                    "annotator_kind": "HUMAN",
                    "identifier": f"{OURS}:{label.reviewer}",
                    "result": {key: value for key, value in result.items() if value is not None},
                    "metadata": label_row(label),
                }
            )
        for first in range(0, len(data), _SPANS_AT_ONCE):
            part = data[first : first + _SPANS_AT_ONCE]
            if self.call("POST", "/v1/span_annotations?sync=true", {"data": part}, also=NOT_THERE) is None:
                for one in part:  # one of the spans does not exist: sent one by one, they show which
                    if self.call("POST", "/v1/span_annotations?sync=true", {"data": [one]}, also=NOT_THERE) is None:
                        sent.problems.append(f"span {one['span_id']}: not in Phoenix")
                    else:
                        sent.labels += 1
            else:
                sent.labels += len(part)
        return sent

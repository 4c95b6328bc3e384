"""People's labels from and to Langfuse: scores that people gave (source ANNOTATION), and its annotation queues.

API: `GET /api/public/v3/scores` (older servers: `v2/scores`), `POST /api/public/scores` and `POST
/api/public/annotation-queues/{id}/items`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from monitor.model.label import Label
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
from monitor.sinks.langfuse import LangfuseSink


class LangfuseLabels(LabelServer):
    """Langfuse: scores that people gave (source ANNOTATION), and its annotation queues."""

    def __init__(self, sink: LangfuseSink, *, name: str = "", queue: str = "") -> None:
        verify = sink.tls.context() if sink.tls is not None else True
        super().__init__(sink.url, sink.headers(), verify=verify, timeout=sink.timeout, name=name)
        self._queue = queue

    def pull(self, results: Sequence[ResultRef], words: VerdictWords) -> LabelFile:
        """See `LabelServer`. With a queue, only the scores that were given in it."""
        wanted = {(one.trace_id, self.annotation(one.evaluator)): one.evaluator for one in results if one.trace_id}
        read = Annotations(words)
        for score in self._scores(sorted({name for _, name in wanted})):
            subject = an_object(score.get("subject"))
            trace = a_string(score.get("traceId") or subject.get("traceId") or subject.get("id"))
            evaluator = wanted.get((trace, a_string(score.get("name"))))
            if evaluator is None or score.get("source") != "ANNOTATION":
                continue
            if self._queue and score.get("queueId") not in (None, self._queue):
                continue
            observation = score.get("observationId")
            if observation is None and subject.get("kind") == "observation":
                observation = subject.get("id")
            read.add(
                f"score {a_string(score.get('id'))}",
                score.get("stringValue") or score.get("value"),
                trace_id=trace,
                span_id=a_string(observation),
                evaluator=evaluator,
                reviewer=a_string(score.get("authorUserId")),
                comment=a_string(score.get("comment")),
                at=parse_time(score.get("updatedAt") or score.get("timestamp")),
            )
        return read.file()

    def push(self, labels: Sequence[Label], results: Mapping[str, ResultRef]) -> SentLabels:
        """Write each label as a score with the name `NAME.human`; with a queue, add all results to it instead."""
        sent = SentLabels()
        if self._queue:
            for one in results.values():
                if not one.trace_id:
                    sent.without_trace += 1
                    continue
                item = {
                    "objectId": one.span_id or one.trace_id,
                    "objectType": "OBSERVATION" if one.span_id else "TRACE",
                }
                self.call("POST", f"/api/public/annotation-queues/{quote(self._queue, safe='')}/items", item)
                sent.queued += 1
            return sent
        for label in labels:
            ref = results.get(label.result_id)
            if ref is None or not ref.trace_id:
                sent.without_trace += 1
                continue
            score = {
                "id": f"{label.result_id}-{label.reviewer}"[:200],
                "traceId": ref.trace_id,
                "observationId": ref.span_id or None,
                "name": f"{self.annotation(label.evaluator)}.human",
                "value": label.verdict.value,
                "dataType": "CATEGORICAL",
                "comment": label.comment or None,
                "metadata": label_row(label) | {"origin": OURS},
            }
            self.call("POST", "/api/public/scores", {key: value for key, value in score.items() if value is not None})
            sent.labels += 1
        return sent

    def _scores(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        query = {"source": "ANNOTATION", "limit": 100, "name": ",".join(names), "fields": "details,subject,annotation"}
        page = self.call("GET", f"/api/public/v3/scores?{urlencode(query)}", also=NOT_THERE)
        if page is None:
            yield from self._older_scores()
            return
        for _ in range(PAGES_AT_MOST):
            yield from objects(an_object(page).get("data"))
            cursor = a_string(an_object(an_object(page).get("meta")).get("cursor"))
            if not cursor:
                return
            page = self.call("GET", f"/api/public/v3/scores?{urlencode(query | {'cursor': cursor})}")

    def _older_scores(self) -> Iterator[dict[str, Any]]:
        for number in range(1, PAGES_AT_MOST + 1):
            query = urlencode({"source": "ANNOTATION", "limit": 100, "page": number})
            page = an_object(self.call("GET", f"/api/public/v2/scores?{query}"))
            yield from objects(page.get("data"))
            pages = an_object(page.get("meta")).get("totalPages")
            if not isinstance(pages, int) or number >= pages:
                return

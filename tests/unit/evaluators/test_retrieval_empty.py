from __future__ import annotations

import pytest

from monitor.evaluators.retrieval_empty import RetrievalEmpty
from monitor.model.case import Case, ContextStatus, Document
from monitor.model.outcome import Score, SkippedReason
from monitor.pipeline.local_evaluation import skip_reason

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("documents", "label"),
    [((), "empty"), ((Document("One."),), "found"), ((Document("21", kind="tool_result"),), "found")],
)
async def test_a_retrieval_is_empty_where_the_model_was_given_nothing(
    documents: tuple[Document, ...], label: str
) -> None:
    case = Case(request_id="1", retrieved_context=documents, context_status=ContextStatus.RETRIEVED_NOTHING)
    found = await RetrievalEmpty().evaluate(case, None)
    assert isinstance(found, Score)
    assert (found.label, RetrievalEmpty.default_defect.matches(found)) == (label, label == "empty")
    assert found.label == RetrievalEmpty.scale.level(found.value)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ContextStatus.RETRIEVED_NOTHING, None),
        (ContextStatus.NO_RETRIEVAL, SkippedReason.NO_RETRIEVAL),
        (ContextStatus.NOT_RECORDED, SkippedReason.CONTEXT_NOT_RECORDED),
    ],
)
def test_its_rate_is_over_retrievals_that_are_known(status: ContextStatus, reason: SkippedReason | None) -> None:
    assert skip_reason(RetrievalEmpty(), Case(request_id="1", context_status=status)) is reason

"""How far one request travels through the house."""

from __future__ import annotations

from tests.support import shape


def test_a_request_passes_so_many_files_at_most_until_its_evaluation_is_counted() -> None:
    way = shape.follow(shape.REPOSITORY)
    assert len(way.files) <= shape.LIMITS[shape.FILES_PASSED], sorted(way.files)
    assert {"transport", "pipeline", "extraction", "evaluators", "telemetry"} <= set(way.wings), way.wings

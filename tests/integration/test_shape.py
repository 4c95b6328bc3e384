"""How far one request travels through the house."""

from __future__ import annotations

from tests.support import shape


def test_a_request_passes_so_many_files_at_most_until_its_evaluation_is_counted() -> None:
    """Work beside it, such as a look at memory, may fall into its time: what several requests all pass is the way."""
    files: set[str] = set()
    for attempt in range(4):
        way = shape.follow(shape.REPOSITORY)
        assert {"transport", "pipeline", "extraction", "evaluators", "telemetry"} <= set(way.wings), way.wings
        files = files & set(way.files) if attempt else set(way.files)
        if len(files) <= shape.LIMITS[shape.FILES_PASSED]:
            break
    assert len(files) <= shape.LIMITS[shape.FILES_PASSED], sorted(files)

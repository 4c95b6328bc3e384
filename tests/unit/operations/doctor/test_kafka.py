"""What `rag-monitor doctor` makes of a broker's answer about a topic."""

from __future__ import annotations

import pytest

from monitor.operations.doctor.kafka import topic_finding

READ, WRITE, UNKNOWN = 1 << 3, 1 << 4, -(2**31)


@pytest.mark.parametrize(
    ("allowed", "operation", "level", "said"),
    [
        (READ | WRITE, "READ", "ok", "can be read"),
        (READ, "WRITE", "failed", "may not write"),
        (WRITE, "READ", "failed", "may not read"),
        (0, "READ", "failed", "may not read"),
        (UNKNOWN, "READ", "warning", "does not say"),
        (None, "READ", "warning", "does not say"),
        (["READ", "DESCRIBE"], "READ", "ok", "can be read"),
    ],
)
def test_a_topic_is_fine_only_where_what_is_needed_is_allowed(allowed, operation, level, said):
    told = {"name": "spans", "partitions": [{}, {}], "topic_authorized_operations": allowed}
    found = topic_finding("sources[0] kafka", "spans", operation, told, known=True)
    assert (found.level, said in found.message) == (level, True)


@pytest.mark.parametrize(("told", "known"), [(None, False), ({"partitions": []}, True), ({"partitions": [{}]}, False)])
def test_a_topic_that_nobody_lists_or_that_has_no_partitions_is_missing(told, known):
    found = topic_finding("sources[0] kafka", "spans", "READ", told, known=known)
    assert (found.level, "'spans' does not exist" in found.message, bool(found.fix)) == ("failed", True, True)

"""The options of the source `kafka`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from monitor import registry
from monitor.errors import ConfigError
from monitor.sources.kafka import KafkaSource
from monitor.stages import Source


def made(**options: Any) -> KafkaSource:
    return KafkaSource.model_validate({"brokers": "kafka:9092", **options})


def test_only_the_brokers_must_be_said() -> None:
    source = made()
    assert (source.group, list(source.topics)) == ("rag-monitor", ["otlp_spans"])
    assert source.dead_letters == "rag-monitor-dead-letters"
    with pytest.raises(ConfigError, match=r"sources\[0\].brokers: is required"):
        registry.read("sources", {"type": "kafka"}, Source, "sources[0]")


def test_a_topic_is_its_encoding_or_a_section() -> None:
    topics = made(topics={"a": "otlp_proto", "b": {"encoding": "otlp_json", "signal": "logs"}, "c": "case"}).topics
    assert [one.encoding for one in topics.values()] == ["otlp_proto", "otlp_json", "case"]
    assert topics["b"].signal_of("b") == "logs"
    with pytest.raises(ValidationError, match="'otlp_proto', 'otlp_json' or 'case'"):
        made(topics={"a": "avro"})
    assert made(topics={"c": {"encoding": "case", "app": " a\u3000b "}}).topics["c"].app == "a b"


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("otlp_spans", "traces"),
        ("otlp_logs", "logs"),
        ("rag.logs", "logs"),
        ("log-eu", "logs"),
        ("catalogue", "traces"),
        ("blogs", "traces"),
    ],
)
def test_logs_are_told_by_the_name_of_their_topic_unless_said(name: str, signal: str) -> None:
    assert made(topics={name: "otlp_proto"}).topics[name].signal_of(name) == signal


def test_partitions_of_one_number_go_together_only_where_traces_lie_in_several_topics() -> None:
    assert made().assignor == "cooperative"
    assert made(topics={"spans": "otlp_proto", "rows": "case"}).assignor == "cooperative"
    both = {"otlp_spans": "otlp_proto", "otlp_logs": "otlp_proto"}
    assert made(topics=both).assignor == "range"
    assert made(topics=both, assignment="cooperative").assignor == "cooperative"


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": {}},
        {"topics": {"no spaces": "case"}},
        {"topics": {"..": "case"}},
        {"dead_letters": "otlp_spans"},
        {"dead_letters": ""},
        {"group_instance_id": "a b"},
        {"group": ""},
        {"session_timeout": "0s"},
        {"revoke_timeout": "1m"},
    ],
)
def test_what_can_never_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made(**wrong)


def test_dead_letters_can_be_turned_off() -> None:
    assert made(dead_letters=None).dead_letters is None


@pytest.mark.parametrize("option", ["fetch_max_bytes", "max_partition_fetch_bytes"])
def test_a_size_that_the_protocol_cannot_hold_is_refused_before_the_start(option: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){option}.*less than"):
        KafkaSource(brokers="127.0.0.1:9092", **{option: "2GiB"})  # type: ignore[arg-type]

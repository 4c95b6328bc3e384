"""`rag-monitor doctor` at a real Kafka that asks who somebody is, and what he may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from monitor import config
from monitor.operations.doctor import Finding
from monitor.operations.doctor.kafka import check_brokers
from tests.support.certificates import Authority
from tests.support.kafka import PASSWORD, USER, Broker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
LETTERS = "rag-monitor-dead-letters"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Authority]]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    with Broker(folder / "kafka", SETTINGS, authority=authority) as broker:
        broker.create_topics("otlp_spans", LETTERS, partitions=2)
        yield broker, authority


def allow(broker: Broker, operation: ACLOperation, kind: ResourceType, *names: str) -> None:
    with broker.admin() as admin:
        patterns = [ResourcePattern(kind, name) for name in names]
        acls = [ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, one) for one in patterns]
        done = admin.create_acls(acls)
        assert not done["failed"], done


def found(broker: Broker, authority: Authority, folder: Path) -> list[Finding]:
    source: dict[str, Any] = {
        "type": "kafka",
        "brokers": broker.secure,
        "topics": {"otlp_spans": "otlp_proto"},
        "tls": {"ca_file": str(authority.ca)},
        "sasl": {"mechanism": "scram-sha-256", "username": USER, "password": PASSWORD},
    }
    return list(check_brokers(config.parse({"sources": [source], "storage": {"path": str(folder)}})))


def test_each_permission_that_lacks_is_named_until_all_are_there(
    guarded: tuple[Broker, Authority], tmp_path: Path
) -> None:
    broker, authority = guarded
    allow(broker, ACLOperation.DESCRIBE, ResourceType.TOPIC, "otlp_spans", LETTERS)
    said = {one.message: one for one in found(broker, authority, tmp_path) if one.level == "failed"}
    assert set(said) == {
        "this user may not join the group 'rag-monitor'",
        "this user may not read the topic 'otlp_spans'",
        f"this user may not write the topic '{LETTERS}'",
    }
    assert said["this user may not join the group 'rag-monitor'"].fix == "allow READ on the group"

    allow(broker, ACLOperation.READ, ResourceType.TOPIC, "otlp_spans")
    allow(broker, ACLOperation.WRITE, ResourceType.TOPIC, LETTERS)
    allow(broker, ACLOperation.READ, ResourceType.GROUP, "rag-monitor")
    assert {one.level for one in found(broker, authority, tmp_path)} == {"ok"}

"""Checks that the Kafka brokers respond, have the topics, and allow this user to use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from monitor.config import Config
from monitor.operations.doctor.findings import Finding, failed, ok, warning
from monitor.operations.doctor.local import components, connects
from monitor.transport.kafka.connection import KafkaConnection, quiet_client

_BITS: Final = {"READ": 3, "WRITE": 4, "DESCRIBE": 8}
"""The brokers' numbers of operations (Kafka protocol, `AclOperation`)."""
_UNKNOWN: Final = -(2**31)
_TIMEOUT_MS: Final = 5000


def check_brokers(config: Config) -> Iterator[Finding]:
    """Yield findings on each Kafka source and sink."""
    for place, part in components(config):
        if isinstance(part, KafkaConnection):
            yield from _connection(place, part)


def _wanted(part: Any) -> dict[str, str]:
    """Return the topics and the operation that must be allowed on each."""
    letters = {part.dead_letters: "WRITE"} if part.dead_letters is not None else {}
    if hasattr(part, "topics"):
        return {**dict.fromkeys(part.topics, "READ"), **letters}
    return {part.topic: "WRITE", **letters}


def _connection(place: str, part: KafkaConnection) -> Iterator[Finding]:
    fix = "check `brokers`, `tls` and `sasl`, and that the brokers run"
    addresses = [one.rpartition(":") for one in part.brokers]
    # The client would try for seconds, and leave a socket open for each refusal.
    if not any(connects(host.strip("[]"), int(port)) for host, _, port in addresses):
        yield failed(place, f"cannot connect to {part.address}", fix)
        return
    from kafka import KafkaAdminClient  # noqa: PLC0415 - slow to import, and few need it

    from monitor.transport.kafka.connection import describe, open_client  # noqa: PLC0415

    quiet_client()
    options = part.client_options()
    options.pop("metrics_enabled", None)
    try:
        client = open_client(
            KafkaAdminClient, **options, bootstrap_timeout_ms=_TIMEOUT_MS, request_timeout_ms=_TIMEOUT_MS
        )
    except Exception as error:  # noqa: BLE001 - any error is a finding
        yield failed(place, f"cannot use {part.address}: {describe(error)}", fix)
        return
    group = getattr(part, "group", None)
    try:
        described = {one["name"]: one for one in client.describe_topics(list(_wanted(part)))}
        there = set(client.list_topics())
        joins = group is not None and _may_join(client, group)
    except Exception as error:  # noqa: BLE001 - as above
        yield failed(
            place, f"cannot list topics of {part.address}: {describe(error)}", "allow this user to describe topics"
        )
        return
    finally:
        with contextlib.suppress(Exception):
            client.close()
    yield ok(place, f"{part.address} responds and accepts this user")
    if group is not None:
        yield _group(place, group, joins=joins)
    for topic, operation in _wanted(part).items():
        yield topic_finding(place, topic, operation, described.get(topic), known=topic in there)


def topic_finding(place: str, topic: str, operation: str, description: Any, *, known: bool) -> Finding:
    """Return the finding on one topic. `description` comes from the broker; `known`: the broker lists the topic."""
    partitions = len(description.get("partitions") or ()) if description is not None else 0
    if not known or not partitions:
        message = f"the topic {topic!r} does not exist, or this user may not describe it"
        return failed(place, message, "create it (the monitor never creates topics), or allow DESCRIBE")
    allowed = _allowed(description)
    verb = operation.lower()
    if allowed is None:
        return warning(
            place,
            f"the topic {topic!r} exists; the broker does not say whether this user may {verb} it",
            f"make sure that {operation} is allowed",
        )
    if operation not in allowed:
        return failed(place, f"this user may not {verb} the topic {topic!r}", f"allow {operation} on it")
    return ok(place, f"the topic {topic!r} exists, with {partitions} partitions, and can be {_past(operation)}")


def _may_join(client: Any, group: str) -> bool:
    """Return whether this user may join the group, even if the group does not exist yet.

    A broker describes only groups that exist. Leaving a group needs the same permission as joining it, and removing a
    member that was never there changes nothing.
    """
    from kafka.admin import MemberToRemove  # noqa: PLC0415 - as above
    from kafka.errors import GroupAuthorizationFailedError  # noqa: PLC0415 - as above

    try:
        client.remove_group_members(group, [MemberToRemove(member_id="rag-monitor-doctor-who-never-joined")])
    except GroupAuthorizationFailedError:
        return False
    return True


def _group(place: str, group: str, *, joins: bool) -> Finding:
    if joins:
        return ok(place, f"this user may join the group {group!r}")
    return failed(place, f"this user may not join the group {group!r}", "allow READ on the group")


def _past(operation: str) -> str:
    return {"READ": "read", "WRITE": "written"}[operation]


def _allowed(description: Any) -> set[str] | None:
    """Return the operations that this user may perform; None if the broker does not report them."""
    found = description.get("topic_authorized_operations", description.get("authorized_operations"))
    if isinstance(found, list):
        return {str(one) for one in found}
    if not isinstance(found, int) or found == _UNKNOWN:
        return None
    return {name for name, bit in _BITS.items() if found & (1 << bit)}

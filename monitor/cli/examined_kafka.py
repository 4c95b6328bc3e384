"""What `rag-monitor doctor` asks the brokers: whether they answer, know the topics, and let this user at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from monitor.cli.examined import connects, placed
from monitor.cli.findings import Finding, failed, ok, warning
from monitor.config import Config
from monitor.kafka.connection import KafkaConnection, quiet_client

_BITS: Final = {"READ": 3, "WRITE": 4, "DESCRIBE": 8}
"""Operations as brokers number them (Kafka protocol, `AclOperation`)."""
_UNKNOWN: Final = -(2**31)
_PATIENCE_MS: Final = 5000


def brokers(config: Config) -> Iterator[Finding]:
    """Each source and sink of Kafka."""
    for place, part in placed(config):
        if isinstance(part, KafkaConnection):
            yield from _connection(place, part)


def _wanted(part: Any) -> dict[str, str]:
    """Topics, and what must be allowed there."""
    letters = {part.dead_letters: "WRITE"} if part.dead_letters is not None else {}
    if hasattr(part, "topics"):
        return {**dict.fromkeys(part.topics, "READ"), **letters}
    return {part.topic: "WRITE", **letters}


def _connection(place: str, part: KafkaConnection) -> Iterator[Finding]:
    mend = "are `brokers`, `tls` and `sasl` right, and do the brokers run?"
    addresses = [one.rpartition(":") for one in part.brokers]
    # The client would look on for seconds, and leaves a socket open for each time that it was refused.
    if not any(connects(host.strip("[]"), int(port)) for host, _, port in addresses):
        yield failed(place, f"{part.address} cannot be reached", mend)
        return
    from kafka import KafkaAdminClient  # noqa: PLC0415 - slow to import, and few need it

    from monitor.kafka.connection import describe, open_client  # noqa: PLC0415

    quiet_client()
    options = part.client_options()
    options.pop("metrics_enabled", None)
    try:
        client = open_client(
            KafkaAdminClient, **options, bootstrap_timeout_ms=_PATIENCE_MS, request_timeout_ms=_PATIENCE_MS
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what stands in the way
        yield failed(place, f"{part.address} cannot be used: {describe(error)}", mend)
        return
    group = getattr(part, "group", None)
    try:
        told = {one["name"]: one for one in client.describe_topics(list(_wanted(part)))}
        there = set(client.list_topics())
        joins = group is not None and _may_join(client, group)
    except Exception as error:  # noqa: BLE001 - as above
        yield failed(place, f"{part.address} tells of no topics: {describe(error)}", "may this user describe topics?")
        return
    finally:
        with contextlib.suppress(Exception):
            client.close()
    yield ok(place, f"{part.address} answers and knows this user")
    if group is not None:
        yield _group(place, group, joins=joins)
    for topic, operation in _wanted(part).items():
        yield topic_finding(place, topic, operation, told.get(topic), known=topic in there)


def topic_finding(place: str, topic: str, operation: str, told: Any, *, known: bool) -> Finding:
    """What a broker says of one topic: `told` is its description, `known` whether it is among those listed."""
    partitions = len(told.get("partitions") or ()) if told is not None else 0
    if not known or not partitions:
        why = f"the topic {topic!r} is missing, or this user may not see it"
        return failed(place, why, "create it (topics are never created by the monitor), or allow DESCRIBE")
    allowed = _allowed(told)
    verb = operation.lower()
    if allowed is None:
        return warning(
            place,
            f"the topic {topic!r} is there; the broker does not say whether this user may {verb} it",
            f"make sure that {operation} is allowed",
        )
    if operation not in allowed:
        return failed(place, f"this user may not {verb} the topic {topic!r}", f"allow {operation} on it")
    return ok(place, f"the topic {topic!r} is there, with {partitions} partitions, and may be {_past(operation)}")


def _may_join(client: Any, group: str) -> bool:
    """Whether this user may join the group, which need not be there yet.

    A broker describes only groups that exist. Leaving one needs the same permission as joining it, and a member that
    was never there leaves nobody behind.
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
        return ok(place, f"the group {group!r} may be joined")
    return failed(place, f"this user may not join the group {group!r}", "allow READ on the group")


def _past(operation: str) -> str:
    return {"READ": "read", "WRITE": "written"}[operation]


def _allowed(told: Any) -> set[str] | None:
    """What this user may do; None where the broker does not say."""
    found = told.get("topic_authorized_operations", told.get("authorized_operations"))
    if isinstance(found, list):
        return {str(one) for one in found}
    if not isinstance(found, int) or found == _UNKNOWN:
        return None
    return {name for name, bit in _BITS.items() if found & (1 << bit)}

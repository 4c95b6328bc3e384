"""Checks everything that a monitor with a configuration needs: disk, ports, certificates, brokers, receivers, judges.

async for finding in examine(config):
print(finding.level, finding.place, finding.message)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.operations.doctor.findings import Finding, Level, broken, failed, ok, warning
from monitor.operations.doctor.judge import check_judges, check_keys
from monitor.operations.doctor.kafka import check_brokers
from monitor.operations.doctor.local import check_local

__all__ = ["Finding", "Level", "examine", "failed", "ok", "warning"]


async def examine(config: Config, *, call_judges: bool = True, clock: Clock | None = None) -> AsyncIterator[Finding]:
    """Yield a finding for each check. This does not disturb a monitor that runs with this configuration.

    `call_judges`: make about ten short calls to each judge, which are paid; otherwise only check that there is a key.
    Blocks the event loop for some seconds if addresses do not respond.
    """
    for finding in _kept("this machine", check_local(config, clock or SystemClock())):
        yield finding
    for finding in _kept("brokers", check_brokers(config)):
        yield finding
    if call_judges:
        async for finding in check_judges(config):
            yield finding
    else:
        for finding in _kept("judges", check_keys(config)):
            yield finding


def _kept(place: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check. An exception becomes one more finding, so that the others are not lost."""
    try:
        yield from findings
    except Exception as error:  # noqa: BLE001 - any exception becomes a finding
        yield broken(place, error)

"""When is a trace complete? Gathers its parts, in whatever order and however often they come, and closes it once.

A pure data structure: time comes in as numbers, nothing waits, nothing is read or written. Whoever runs it calls `add`
for what arrives, sleeps until `next_due` and takes what `due` hands out. A trace is whole when each root seen has ended
and nothing came for `grace_period`; else it ends after `idle_timeout` without anything new, after `max_age`, or when
memory runs out. What comes later is counted, never judged.
"""

from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.assembly.values import Added, AssemblySettings, ClosedTrace, PartCounts

__all__ = ["Added", "Assembly", "AssemblySettings", "ClosedTrace", "PartCounts"]

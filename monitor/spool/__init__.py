"""The durable queue before assembly: what a sender was told is safe survives crashes, full disks and damaged files.

`queue` is what the pipeline talks to (asyncio, group commit), `store` the SQLite file behind it (one thread, blocking),
`salvage` what is done to a file that turns out to be damaged, `files` how a file is made that only its owner may read.
"""

from monitor.spool.format import Record
from monitor.spool.queue import Replayed, Spool, open_spool

__all__ = ["Record", "Replayed", "Spool", "open_spool"]

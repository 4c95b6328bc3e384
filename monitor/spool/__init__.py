"""The durable queue before assembly: what a sender was told is safe survives crashes, full disks and damaged files.

`opening` puts it together: `queue` is what the pipeline talks to (asyncio, group commit), `store` the SQLite file
behind it (one thread, blocking), with `draws` and `remembered` beside the records and an eye on the `room`; `retained`
keeps for a time what is done with, `salvage` is what is done to a file that turns out to be damaged, `files` how a file
is made that only its owner may read.
"""

from monitor.spool.format import Record
from monitor.spool.opening import open_spool
from monitor.spool.queue import Replayed, Spool

__all__ = ["Record", "Replayed", "Spool", "open_spool"]

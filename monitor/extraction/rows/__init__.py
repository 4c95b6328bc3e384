"""Rows: requests with their answers as JSON, in the shapes that people already have, for services without traces.

`delivery` cuts a body into rows, `shapes` says which shapes there are, `reading` makes a row into a case. One piece of
code for files, for `POST /v1/cases` and for every queue that carries rows.
"""

from monitor.extraction.rows.delivery import ParsedRows, RowFault, take
from monitor.extraction.rows.reading import read, recognise

__all__ = ["ParsedRows", "RowFault", "read", "recognise", "take"]

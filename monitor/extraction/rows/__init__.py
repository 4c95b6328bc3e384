"""Read rows, which are requests with their answers as JSON in shapes already in use, for services without traces.

`delivery` splits a body into rows, `shapes` lists the known shapes, `reading` turns a row into a case. Files,
`POST /v1/cases` and every queue that carries rows share this code.
"""

from monitor.extraction.rows.delivery import ParsedRows, RowFault, take
from monitor.extraction.rows.explain import explain
from monitor.extraction.rows.reading import read, recognise
from monitor.extraction.rows.shapes import known

__all__ = ["ParsedRows", "RowFault", "explain", "known", "read", "recognise", "take"]

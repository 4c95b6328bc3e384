"""The configuration: one YAML file as one frozen model. Everything has a default; an empty file runs.

`${NAME}` in any text is replaced by the environment variable NAME. Unknown keys, duplicate keys and wrong values are
errors that name the place, the value and what is allowed. Anchors, aliases and merge keys of YAML work: `&a`, `*a`,
`<<: *a`.
"""

from monitor.config.changes import Loaded
from monitor.config.file import load, parse, parse_text, readable_secrets
from monitor.config.model import Config

__all__ = ["Config", "Loaded", "load", "parse", "parse_text", "readable_secrets"]

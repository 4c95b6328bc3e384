"""Exporting scored answers from the history as a data set: each answer once, personal data masked, room for a label."""

from monitor.operations.export.collect import Export, ExportFilter, collect
from monitor.operations.export.shapes import SHAPES

__all__ = ["SHAPES", "Export", "ExportFilter", "collect"]

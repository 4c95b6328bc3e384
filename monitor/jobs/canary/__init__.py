"""The canary set: the same few cases judged again and again, to notice when it is the judge that changes.

A provider may change what stands behind a model's name; rates then move though the service is as it was. Nothing here
touches the series, samplers or history of production.
"""

from monitor.jobs.canary.settings import CanarySettings

__all__ = ["CanarySettings"]

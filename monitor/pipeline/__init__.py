"""The pipeline, from the sources to the sinks: bounded, counted, with an orderly shutdown.

`run` connects the parts. `ingest` takes data in, `assembly` completes traces, `in_flight` holds each request until it
ends, `read` turns it into a case. `sampling` chooses evaluators, `quotas` and `traffic` limit them, `live_evaluation`
runs them in the turns granted by `fair_queue`, using `scoring`, and `publish` delivers the results. `ledger`, `metrics`
and `introspection` track where everything is. `feedback` processes external scores; `privacy` masks and drops.
"""

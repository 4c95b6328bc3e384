"""The way of the data, from the sources to the sinks: bounded, counted, with an orderly end.

`run` puts it together. In: `ingest`. On: `in_flight` holds what is complete until it ends, `readers` read it; `ledger`
and `noting` know where everything is. Judged: `evaluate` runs each `assignment`, chosen by `drawing`, in turn by
`fair`, within the `edges`; `results`, `counting` and `publish` make known what came of it. Who counts: `traffic`,
`quotas`, `private`. What others say is worked off in `foreign`.
"""

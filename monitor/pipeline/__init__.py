"""The way of the data, from the door to the sinks: bounded, counted, with an orderly end.

`run` puts it together. In: `door`, behind it `intake` (with `head`), `row_intake` and that of `foreign`. On: `closing`
says what is `complete`, `readers` read it, `ending` settles it; `ledger`, `noting` and `in_hand` know where everything
is. Judged: `evaluate` runs each `assignment`, chosen by `drawing`, in turn by `fair`, within the `edges`; `results`,
`counting` and `delivery` make known what came of it. Who counts: `traffic`, `quotas`, `private`. Verdicts of others
are worked off in `foreign`.
"""

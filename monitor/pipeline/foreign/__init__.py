"""Verdicts of others on their way: in by `intake` and `late`, sorted by `names`, entered at the `desk`.

`known` finds the request that a verdict is on; `disliked` holds what a user's vote sets off.
"""

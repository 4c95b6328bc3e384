"""Feedback on its way: sorted by `names`, worked off at the `desk`.

`known` finds the request that a verdict is on; `disliked` holds what a user's vote sets off.
"""

"""Feedback on its way: sorted by `names`, processed in `processor`.

`known` finds the request that a verdict is on; `disliked` holds what a user's vote sets off.
"""

"""From rates to people.

policy (what the configuration asks for) -> conditions (what is wrong now) -> engine (what fires, how long) -> notify
feed (what the pipeline learned) -> conditions and self_alerts; prometheus has the same alerts as rules
"""

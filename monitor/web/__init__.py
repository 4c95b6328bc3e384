"""The built-in UI and JSON API on the metrics port: rates, alerts, answers with their results, explanations, trials.

Rendered on the server, without scripts or external assets. Text of the traffic is never markup (`texts`).
"""

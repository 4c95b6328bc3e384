"""From rates to people.

policy (what the configuration asks for) -> threshold, regression, self_alerts (what is wrong now) -> engine (what
fires, how long) -> notify. Each of these has the same alert as a Prometheus rule; `prometheus/` writes the file.
"""

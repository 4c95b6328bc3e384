"""From rates to people.

policy (what the configuration asks for) -> threshold, regression, self_alerts (what is wrong now) -> engine (what
fires, how long) -> notify. Each alert also exists as a Prometheus rule; `prometheus/` writes the file.
"""

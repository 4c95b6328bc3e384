"""Dashboards for Grafana, as code: `python -m grafana.generate` writes `grafana/dashboards/*.json`."""

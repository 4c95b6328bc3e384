"""The boards, drawn with Grafana's own panel code over a real Prometheus: `python -m tests.record.panels FOLDER`."""

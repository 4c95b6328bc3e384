"""Predicts what a configuration would do with recorded traffic, and what that would cost. No judge is called.

traffic = from_files(config, [Path("rows.jsonl")])
found = await predict(config, traffic)
estimate(config, found, requests_per_day=60_000)
"""

"""Watches a running monitor through its metrics port.

watcher = Watcher(MonitorClient("http://127.0.0.1:9464"))
watcher.look(time.time())
watcher.status().rates  # defect rates with intervals, states, trends
"""

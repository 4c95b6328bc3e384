"""The same alerts in PromQL: the rules file, its tests for promtool, and the templates of the release gate."""

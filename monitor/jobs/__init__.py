"""Jobs that run beside the pipeline: backfill, canary, trials, the monitor's own telemetry, calibration."""

"""Pure maths: weighted rates and their limits, change detection, correction, gating, sampling."""

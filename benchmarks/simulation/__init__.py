"""Groups with a known truth, scored by the simulated judge's model and combined by ruler's own code."""

"""Groups with a known truth, judged by the simulated judge's model and combined by ruler's own code."""

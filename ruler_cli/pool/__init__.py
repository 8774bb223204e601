"""Many requests at once: the engine, the gate with its limits, and the retries."""

"""Many at once: the engine (which knows nothing of judges), the slots, what a failure means."""

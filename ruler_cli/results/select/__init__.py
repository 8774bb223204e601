"""A scored file → the same shape with fewer groups and rollouts: named conditions, then the best of each."""

"""A module per dump shape: where messages, reward and group key stand, and how to write back."""

"""A run on Ray, by shards."""

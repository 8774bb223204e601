"""Settings in, a whole run out: a file scored, a Scorer that stays open, an estimate, batches, Ray."""

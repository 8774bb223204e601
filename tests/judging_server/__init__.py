"""The judge server: requests, answers, refusals, counts and connections."""

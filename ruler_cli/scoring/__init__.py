"""Replies → scores: parse, combine, rate. Nothing here waits, prints or calls a judge."""

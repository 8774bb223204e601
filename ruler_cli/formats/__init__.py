"""Formats: records in, rollouts with their group keys out; and annotations in, annotated records out."""

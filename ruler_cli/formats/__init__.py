"""Formats: one module for each family of dumps, with reading, group key, reward and write-back."""

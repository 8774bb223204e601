"""Bytes ↔ records: lines, compression, exact edits, atomic output."""

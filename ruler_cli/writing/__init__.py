"""Scores and a record's bytes → the annotated record → a file, atomically."""

"""Chat messages of any dialect → one normal form: turns, calls, results, pictures, thoughts, endings."""

"""A scored file → figures of the run, groups worth a look, and the lines of each group."""

"""A scored file → what there is to see: figures of the run, the groups worth a look, one page of each."""

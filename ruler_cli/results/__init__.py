"""A scored file's groups → what ruler has written on them, as values: for `report` and `select`."""

"""A scored file → a report, a selection, and its agreement with labels or another judge."""

"""A group → the requests to its judge; pure."""

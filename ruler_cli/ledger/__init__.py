"""Replies of judges by the content of their requests, in SQLite; several ledgers are read as one."""

"""Every reply by its content, in SQLite; several ledgers read as one."""

"""A run on Ray: its input read by Ray Data, its groups judged by workers, its limits held by one."""

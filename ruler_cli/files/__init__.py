"""Bytes ↔ records: one interface for containers, grouping, exact edits of records, files that appear whole.

A container is a module of `containers`, which reads and writes. Other rooms use `open_container`, `Output`,
`FailedFile`, `Location`, `Scratch` and `Index`, and the functions of `grouping`, `parse`, `splice` and
`error_map`.
"""

"""Measure the promises of speed, memory and prompt size: `python -m benchmarks [--quick]`."""

"""The promises of speed, memory and prompt size, measured: `python -m benchmarks [--quick]`."""

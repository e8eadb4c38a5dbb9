"""The suite's cases, one file each: ``PYTHONPATH=benchmarks python -m cases.latency --output latency.json``."""

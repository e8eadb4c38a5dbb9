"""The suite's cases, one file each: ``python -m cases.latency --output latency.json`` with ``benchmarks`` on the path."""

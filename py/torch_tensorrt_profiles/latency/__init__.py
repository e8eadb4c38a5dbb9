"""Running a saved program: its latency per optimization profile, and its traces in a pass of their own."""

"""From results to the tables and plots of the documentation. ``benchmarks/draw.py`` is the command."""

"""Reading the traces that profiled engines wrote: tables, an HTML page, a timeline.

Standard library only, and independent of torch: traces are read on any host.
"""

"""Streams: queries that write batches exactly once, and that read what completes."""

"""Frames of the records of tables, and their schema versions and filters."""

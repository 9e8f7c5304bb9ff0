"""Explanations of a read or a write: the file groups and files that it touches, and why."""

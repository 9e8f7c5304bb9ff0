"""Writes of frames: rows are tagged, placed, shuffled, written by tasks, and their instant completes."""

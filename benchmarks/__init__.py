"""Benchmarks: one command each, ratios against a baseline of the same run."""

from __future__ import annotations

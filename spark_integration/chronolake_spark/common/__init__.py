"""Columns, types, options and checks that all packages share, without Spark."""

"""The record index: its files, and the places of keys in them, without Spark."""

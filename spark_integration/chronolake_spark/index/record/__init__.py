"""The record index: its files, and what they say of keys, without Spark."""

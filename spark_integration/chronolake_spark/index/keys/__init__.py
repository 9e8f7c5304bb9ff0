"""The keys of a base file: its key range, its bloom filter, and their lookup, without Spark."""

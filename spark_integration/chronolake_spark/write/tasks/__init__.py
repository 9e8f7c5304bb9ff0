"""The part of a write that a task executes: it writes rows into file groups, without Spark."""

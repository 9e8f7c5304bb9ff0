"""Sessions of Spark, their schemas and failures, and the progress of their jobs."""

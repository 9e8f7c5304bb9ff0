"""Sessions of Spark, schemas and failures, the progress of jobs, and all private parts of PySpark."""

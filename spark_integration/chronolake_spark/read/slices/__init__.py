"""The files of a file slice on an executor: read, merged and written in Arrow, without Spark."""

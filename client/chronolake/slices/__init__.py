"""The files of a file slice: read, merged and written in Arrow, by Spark's executors and by this client."""

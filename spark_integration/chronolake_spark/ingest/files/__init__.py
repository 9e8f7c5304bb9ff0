"""The files of an ingest: strict checks of their contents, without Spark."""

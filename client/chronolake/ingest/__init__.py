"""Files that are loaded into tables: strict reading in Arrow, and the job that commits them by an engine."""

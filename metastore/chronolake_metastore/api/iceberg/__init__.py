"""/iceberg: a read-only catalog in the dialect of Iceberg's REST specification."""

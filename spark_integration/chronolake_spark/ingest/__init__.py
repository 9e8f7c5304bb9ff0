"""``chronolake ingest``: jobs that load files as commits, once or as they arrive."""

"""PostgreSQL itself: connections, pipelines, transactions, statements and locks; no noun of the timeline."""

"""PostgreSQL itself: connections, transactions, statements and locks; no noun of the timeline."""

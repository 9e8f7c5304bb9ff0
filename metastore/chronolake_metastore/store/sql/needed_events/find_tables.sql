-- All tables with events: the name, the version from which on PostgreSQL has all events, and the present time.
SELECT c.table_id, t.namespace || '.' || t.name, coalesce(f.version, 1), now_us()
FROM clock c
JOIN lake_table t ON t.table_id = c.table_id
LEFT JOIN first_event f ON f.table_id = c.table_id
ORDER BY 2, t.dropped_at NULLS FIRST

-- The events that have left of some eras, and whose lists have stayed. They may leave now.
SELECT DISTINCT x.table_id, x.version
FROM event_entry x
WHERE x.era BETWEEN %(first_era)s AND %(last_era)s
    AND NOT EXISTS (SELECT FROM event e WHERE e.table_id = x.table_id AND e.version = x.version)

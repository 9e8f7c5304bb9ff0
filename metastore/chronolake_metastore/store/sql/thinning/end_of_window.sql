-- The last event of the next ones of some eras, by table and version; none if there are fewer.
SELECT e.table_id, e.version
FROM event e
WHERE e.era BETWEEN %(first_era)s AND %(last_era)s
    AND (e.table_id, e.version) > (%(after_table)s::uuid, %(after_version)s::bigint)
ORDER BY e.table_id, e.version
OFFSET %(events)s - 1
LIMIT 1

-- The events of some eras that may leave: for each table and era the first version and the last one, and the same of the
-- answers with which they are read from the archive: each event carries the hash of one, and has the request id of the next.
SELECT e.table_id, min(e.version), max(e.version), min(e.answers), max(e.answers) + 1
FROM event e
LEFT JOIN unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS first (table_id, version) ON first.table_id = e.table_id
WHERE e.era BETWEEN %(first_era)s AND %(last_era)s AND NOT ({is_needed})
GROUP BY e.table_id, e.era

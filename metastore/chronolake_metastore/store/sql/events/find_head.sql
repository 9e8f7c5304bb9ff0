-- The last event of a table, and whether its log has the event that a claim records.
SELECT
    e.version,
    encode(e.hash, 'hex'),
    %(version)s::bigint IS NULL OR EXISTS (
        SELECT
        FROM event r
        WHERE r.table_id = e.table_id AND r.version = %(version)s AND encode(r.hash, 'hex') = %(hash)s
    )
FROM event e
WHERE e.table_id = %(table_id)s
ORDER BY e.version DESC
LIMIT 1

-- The last event of a table, and whether its log has the event that a claim records. Versions have no gap, so an event that is
-- missing before the last one is in the archive alone: then it is not known.
SELECT
    e.version,
    encode(e.hash, 'hex'),
    CASE
        WHEN %(version)s::bigint IS NULL THEN true
        WHEN %(version)s > e.version THEN false
        ELSE (
            SELECT encode(r.hash, 'hex') = %(hash)s
            FROM event r
            WHERE r.table_id = e.table_id AND r.version = %(version)s
        )
    END
FROM event e
WHERE e.table_id = %(table_id)s
ORDER BY e.version DESC
LIMIT 1

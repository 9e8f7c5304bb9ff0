-- The files that completed instants have published, in the order of their events; each with the base file before it in its
-- file group, and whether the partition had no file before.
SELECT
    micros(n.instant), w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records, w.inserts, w.updates,
    w.deletes,
    (
        SELECT micros(f.requested_time)
        FROM file f
        WHERE (f.table_id, f.partition_path, f.file_id) = (w.table_id, w.partition_path, w.file_id)
            AND f.kind = 'base'
            AND f.completion_time < n.time
            AND (f.withdrawn_at IS NULL OR f.withdrawn_at > n.time)
        ORDER BY f.requested_time DESC
        LIMIT 1
    ),
    NOT EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = w.table_id AND f.partition_path = w.partition_path AND f.completion_time < n.time
        OFFSET 0
    )
FROM unnest(%(instants)s::bigint[], %(times)s::bigint[], %(versions)s::bigint[]) WITH ORDINALITY
    AS given (instant_us, time_us, version, number)
CROSS JOIN LATERAL (SELECT moment(given.instant_us) AS instant, moment(given.time_us) AS time) AS n
JOIN write_stat w ON w.table_id = %(table_id)s AND w.version = given.version
ORDER BY given.number, w.ordinal

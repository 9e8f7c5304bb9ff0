-- The files that completed instants have published, in the order of their events; each with the base file before it in its
-- file group, and whether the partition had no file before. The write stats of events before the first one that PostgreSQL
-- has are given.
WITH given AS (
    SELECT *
    FROM unnest(%(instants)s::bigint[], %(times)s::bigint[], %(versions)s::bigint[]) WITH ORDINALITY
        AS named (instant_us, time_us, version, number)
), written AS (
    SELECT
        g.number, g.instant_us, g.time_us, w.ordinal, w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes,
        w.records, w.inserts, w.updates, w.deletes
    FROM given g
    JOIN write_stat w ON w.table_id = %(table_id)s AND w.version = g.version AND w.version >= %(first_version)s
    UNION ALL
    SELECT
        g.number, g.instant_us, g.time_us, a.ordinal, a.partition_path, a.file_id, a.file_name, a.kind, a.size_bytes,
        a.records, a.inserts, a.updates, a.deletes
    FROM given g
    JOIN json_to_recordset(%(archived)s::text::json) AS a (
        version bigint, ordinal int, partition_path text, file_id text, file_name text, kind text, size_bytes bigint,
        records bigint, inserts bigint, updates bigint, deletes bigint
    ) ON a.version = g.version
)
SELECT
    micros(n.instant), w.partition_path, w.file_id, w.file_name, w.kind, w.size_bytes, w.records, w.inserts, w.updates,
    w.deletes,
    (
        SELECT micros(f.requested_time)
        FROM file f
        WHERE (f.table_id, f.partition_path, f.file_id) = (%(table_id)s, w.partition_path, w.file_id)
            AND f.kind = 'base'
            AND f.completion_time < n.time
            AND (f.withdrawn_at IS NULL OR f.withdrawn_at > n.time)
        ORDER BY f.requested_time DESC
        LIMIT 1
    ),
    NOT EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = %(table_id)s AND f.partition_path = w.partition_path AND f.completion_time < n.time
        OFFSET 0
    )
FROM written w
CROSS JOIN LATERAL (SELECT moment(w.instant_us) AS instant, moment(w.time_us) AS time) AS n
ORDER BY w.number, w.ordinal

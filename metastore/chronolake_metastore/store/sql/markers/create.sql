-- Create markers of pending instants with a writer, in one statement that is its own transaction (docs/decisions/0016).
-- A transaction that ends an instant updates the row of the instant. So either it waits until these markers are durable,
-- or this statement waits for it, reads the row again, and leaves the instant out. The lock is exclusive, so waiting
-- transactions queue: with a shared lock, a steady flow of markers would starve a rollback. Tables with early conflict
-- detection are left out, and requests with a path whose first part does not begin with the name of the first partition
-- field: their markers are checked first, and then created by markers/insert.sql.
WITH requested AS MATERIALIZED (
    SELECT n.number, t.table_id, moment(n.requested_time) AS requested_time, n.writer, t.first_part
    FROM unnest(
        %(namespaces)s::text[], %(tables)s::text[], %(table_ids)s::uuid[], %(requested_times)s::bigint[],
        %(writers)s::text[]
    ) WITH ORDINALITY AS n (namespace, name, table_id, requested_time, writer, number)
    CROSS JOIN LATERAL (
        SELECT live.table_id, (live.definition -> 'partition_fields' ->> 0) || '=' AS first_part
        FROM lake_table live
        WHERE live.namespace = n.namespace AND live.name = n.name AND live.dropped_at IS NULL
            AND live.table_id = coalesce(n.table_id, live.table_id)
            AND live.definition -> 'properties' ->> 'markers.early-conflict-detection' IS DISTINCT FROM 'true'
            AND live.definition -> 'properties' ->> 'partition-paths.hive-style' IS DISTINCT FROM 'false'
        OFFSET 0
    ) AS t
),
doubtful AS MATERIALIZED (
    SELECT DISTINCT m.number
    FROM unnest(%(numbers)s::integer[], %(partition_paths)s::text[]) AS m (number, partition_path)
    JOIN requested a ON a.number = m.number
    WHERE NOT starts_with(m.partition_path, a.first_part)
),
held AS MATERIALIZED (
    SELECT i.table_id, i.requested_time, i.writer
    FROM (SELECT DISTINCT a.table_id, a.requested_time FROM requested a) AS named
    JOIN instant i ON i.table_id = named.table_id AND i.requested_time = named.requested_time
    WHERE i.state IN ('requested', 'inflight')
        AND i.lease_expires_at IS NOT NULL
        -- These actions write no data files; another statement refuses their markers with that reason.
        AND i.action NOT IN ('clean', 'indexing', 'rollback', 'savepoint', 'restore')
    ORDER BY i.table_id, i.requested_time
    FOR NO KEY UPDATE OF i
),
admitted AS MATERIALIZED (
    SELECT a.number, a.table_id, a.requested_time
    FROM requested a
    JOIN held h ON h.table_id = a.table_id AND h.requested_time = a.requested_time
    WHERE (a.writer IS NULL OR a.writer = h.writer)
        AND NOT EXISTS (SELECT FROM doubtful d WHERE d.number = a.number)
),
now AS MATERIALIZED (
    SELECT moment(now_us()) AS time
),
made AS (
    INSERT INTO marker (table_id, requested_time, partition_path, file_name, kind, created_at)
    SELECT a.table_id, a.requested_time, m.partition_path, m.file_name, m.kind, now.time
    FROM now
    CROSS JOIN unnest(
        %(numbers)s::integer[], %(partition_paths)s::text[], %(file_names)s::text[], %(kinds)s::text[]
    ) AS m (number, partition_path, file_name, kind)
    JOIN admitted a ON a.number = m.number
    ON CONFLICT ON CONSTRAINT marker_name_unique DO NOTHING
    RETURNING table_id, requested_time, partition_path, file_name, kind
)
SELECT (SELECT count(*) FROM made), number, table_id, micros(requested_time), NULL, NULL, NULL
FROM admitted
UNION ALL
-- The new markers are returned only if not all markers are new.
SELECT NULL, NULL, table_id, micros(requested_time), partition_path, file_name, kind
FROM made
WHERE (SELECT count(*) FROM made) < %(markers)s::bigint

-- By partition the last instant that has inserted records and completed after the instant was requested, for the named
-- partitions and those into which its staged files insert; with a record index for all partitions, if there is any. A
-- file inserts if its write stat has inserts, or no counts at all, or if its file group was compacted by a plan that was
-- made after its instant was requested: the compaction may have forgotten that a key was deleted.
WITH it AS MATERIALIZED (
    SELECT t.table_id, t.definition -> 'index' ->> 'type' = 'record' AS is_global
    FROM lake_table t
    WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
),
own AS MATERIALIZED (
    SELECT given.partition_path FROM unnest(%(partition_paths)s::text[]) AS given (partition_path)
    UNION
    SELECT w.partition_path
    FROM it
    JOIN write_stat w ON w.table_id = it.table_id AND w.version = ANY (%(staged)s::bigint[])
    WHERE w.inserts > 0 OR (w.updates = 0 AND w.deletes = 0)
),
since AS MATERIALIZED (
    SELECT i.table_id, i.version, i.action, i.state, i.requested_time, i.completion_time
    FROM it
    JOIN instant i ON i.table_id = it.table_id
    WHERE i.completion_time > moment(%(requested_time)s)
        AND i.operation NOT IN ('compact', 'log_compact', 'cluster')
),
versions AS MATERIALIZED (
    SELECT s.requested_time, s.completion_time, s.version FROM since s
    UNION
    SELECT s.requested_time, s.completion_time, staged.version::bigint
    FROM since s
    JOIN event e ON e.table_id = s.table_id AND e.version = s.version
    CROSS JOIN LATERAL json_array_elements_text(e.payload -> 'staged') AS staged (version)
),
latest AS (
    SELECT w.partition_path, max(v.completion_time) AS completion_time
    FROM it
    CROSS JOIN versions v
    JOIN write_stat w ON w.table_id = it.table_id AND w.version = v.version
    WHERE (
            w.inserts > 0
            OR (w.updates = 0 AND w.deletes = 0)
            OR EXISTS (
                SELECT
                FROM file f
                JOIN instant c ON c.table_id = f.table_id AND c.requested_time = f.requested_time
                WHERE (f.table_id, f.partition_path, f.file_id) = (w.table_id, w.partition_path, w.file_id)
                    AND f.kind = 'base'
                    AND f.requested_time > v.requested_time
                    AND f.completion_time < v.completion_time
                    AND c.operation = 'compact'
            )
        )
        AND (w.partition_path IN (SELECT own.partition_path FROM own)
            OR (it.is_global AND EXISTS (SELECT FROM own)))
    GROUP BY w.partition_path
)
SELECT
    s.table_id, l.partition_path, s.action, s.state, micros(s.requested_time), micros(s.completion_time)
FROM latest l
JOIN since s USING (completion_time)

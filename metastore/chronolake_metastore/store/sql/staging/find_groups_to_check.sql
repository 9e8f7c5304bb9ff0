-- The staged file groups that the completion of an instant must check again. These are the groups that other instants
-- wrote or replaced after the instant was requested, that are in plans of others, or that the instant itself replaces,
-- and groups that are not the first of their bucket. Earlier writes were checked when the files were staged.
WITH it AS MATERIALIZED (
    SELECT t.table_id, moment(%(requested_time)s) AS requested_time, t.definition -> 'index' ->> 'type' AS index_type
    FROM lake_table t
    WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
),
staged AS MATERIALIZED (
    SELECT DISTINCT w.kind, w.partition_path, w.file_id
    FROM it
    JOIN write_stat w ON w.table_id = it.table_id AND w.version = ANY (%(versions)s::bigint[])
),
touched AS MATERIALIZED (
    SELECT f.partition_path, f.file_id
    FROM it
    JOIN file f
        ON f.table_id = it.table_id
        AND f.live_from > it.requested_time
        AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
    UNION
    SELECT r.partition_path, r.file_id
    FROM it
    JOIN replaced_group r ON r.table_id = it.table_id AND r.replaced_at > it.requested_time
    UNION
    SELECT p.partition_path, p.file_id
    FROM it
    JOIN planned_group p ON p.table_id = it.table_id AND p.requested_time <> it.requested_time
    UNION
    SELECT own.partition_path, own.file_id
    FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS own (partition_path, file_id)
)
SELECT s.kind, s.partition_path, s.file_id
FROM staged s
JOIN touched USING (partition_path, file_id)
UNION
SELECT s.kind, s.partition_path, s.file_id
FROM it
CROSS JOIN staged s
WHERE it.index_type = 'bucket' AND s.file_id NOT LIKE '%%-000000000000-0'

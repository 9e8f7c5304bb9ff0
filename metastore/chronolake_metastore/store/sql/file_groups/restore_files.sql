-- Insert the files that restores bring back: those in the latest slices as of the pinned instants, unless a file still is
-- in the latest slice.
WITH restored AS MATERIALIZED (
    SELECT restore.table_id, restore.completion_time AS at, saved.completion_time AS back_to
    FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS named (table_id, requested_time)
    JOIN instant restore
        ON restore.table_id = named.table_id AND restore.requested_time = moment(named.requested_time)
    JOIN instant savepoint ON savepoint.table_id = restore.table_id AND savepoint.requested_time = restore.target
    JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
)
INSERT INTO file (
    table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
    completion_time, live_from, column_stats, schema_version, has_field_ids
)
SELECT
    f.table_id, f.version, f.ordinal, f.partition_path, f.file_id, f.requested_time, f.file_name, f.kind, f.size_bytes,
    f.records, f.completion_time, restored.at, f.column_stats, f.schema_version, f.has_field_ids
FROM restored
JOIN file f
    ON f.table_id = restored.table_id AND f.superseded_at > restored.back_to AND f.live_from <= restored.back_to
WHERE NOT EXISTS (
    SELECT
    FROM file live
    WHERE (live.table_id, live.partition_path, live.file_id) = (f.table_id, f.partition_path, f.file_id)
        AND (live.requested_time, live.file_name) = (f.requested_time, f.file_name)
        AND live.superseded_at IS NULL
)

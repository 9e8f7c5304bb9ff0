-- The base files of a state and of its parent: in the named file groups where {compares} is =, in those after the named one where
-- it is >. A file may have several periods. Those of neither are left out before the limit: between a savepoint and the
-- next state, a file group may have had any number of files.
SELECT *
FROM (
    SELECT
        f.partition_path, f.file_id, f.file_name, f.size_bytes, f.records,
        micros(f.requested_time), micros(f.completion_time),
        f.schema_version, f.has_field_ids, f.column_stats::text,
        ({is_in_parent}) AS in_parent,
        ({is_in_state}) AS in_state
    FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    CROSS JOIN LATERAL (
        SELECT *
        FROM file live
        WHERE live.table_id = %(table_id)s
            AND live.superseded_at IS NULL
            AND live.live_from <= moment(%(until)s::bigint)
            AND live.kind = 'base'
            AND (live.partition_path, live.file_id) {compares} (named.partition_path, named.file_id)
        UNION ALL
        SELECT *
        FROM file former
        WHERE former.table_id = %(table_id)s
            AND former.superseded_at > moment(%(since)s::bigint)
            AND former.live_from <= moment(%(until)s::bigint)
            AND former.kind = 'base'
            AND (former.partition_path, former.file_id) {compares} (named.partition_path, named.file_id)
    ) AS f
) AS found
WHERE found.in_parent OR found.in_state
ORDER BY found.partition_path, found.file_id, found.file_name
LIMIT %(rows)s

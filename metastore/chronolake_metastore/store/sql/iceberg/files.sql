-- The base files of a state and of its parent: in the named file groups where {compares} is =, in those after the named one where
-- it is >. A file may have several periods. Those of neither are left out before the limit: between a savepoint and the
-- next state, a file group may have had any number of files. Each part has the limit, so that a page of a large table
-- reads, encodes and sorts few files more than it has.
SELECT
    f.partition_path, f.file_id, f.file_name, f.size_bytes, f.records,
    micros(f.requested_time), micros(f.completion_time),
    f.schema_version, f.has_field_ids, f.column_stats::text,
    ({is_in_parent}) AS in_parent,
    ({is_in_state}) AS in_state
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
CROSS JOIN LATERAL (
    (
        SELECT *
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.superseded_at IS NULL
            AND f.live_from <= moment(%(until)s::bigint)
            AND f.kind = 'base'
            AND (f.partition_path, f.file_id) {compares} (named.partition_path, named.file_id)
            AND (({is_in_parent}) OR ({is_in_state}))
        ORDER BY f.partition_path, f.file_id, f.file_name
        LIMIT %(rows)s
    )
    UNION ALL
    (
        SELECT *
        FROM file f
        WHERE f.table_id = %(table_id)s
            AND f.superseded_at > moment(%(since)s::bigint)
            AND f.live_from <= moment(%(until)s::bigint)
            AND f.kind = 'base'
            AND (f.partition_path, f.file_id) {compares} (named.partition_path, named.file_id)
            AND (({is_in_parent}) OR ({is_in_state}))
        ORDER BY f.partition_path, f.file_id, f.file_name
        LIMIT %(rows)s
    )
) AS f
ORDER BY f.partition_path, f.file_id, f.file_name
LIMIT %(rows)s

-- The base files f of a state and of its parent: those in the named file group where {compares} is =, those in the file groups
-- after it where it is >. Each part has the limit, so that a page of a large table reads, encodes and sorts few files
-- more than it has. Those of neither are left out before the limit: between a savepoint and the next state, a file
-- group may have had any number of files.
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

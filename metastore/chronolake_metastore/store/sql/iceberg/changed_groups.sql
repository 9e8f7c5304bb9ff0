-- The first file groups that changed in a range of times, also if they changed back: groups with a new file, or with a file that
-- was superseded, replaced or withdrawn. Cleaned files count: a snapshot whose manifests are continued has them.
SELECT f.partition_path, f.file_id
FROM file f
WHERE f.table_id = %(table_id)s
    AND f.live_from > moment(%(after)s)
    AND f.live_from <= moment(%(until_change)s)
    AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
UNION
SELECT f.partition_path, f.file_id
FROM file f
WHERE f.table_id = %(table_id)s AND f.superseded_at > moment(%(after)s) AND f.superseded_at <= moment(%(until_change)s)
ORDER BY partition_path, file_id
LIMIT %(groups)s

-- A page of the file groups whose slices are not as of a time what they were as of another, or were not in between:
-- written to, replaced, or restored to what they had been.
SELECT partition_path, file_id
FROM (
    SELECT f.partition_path, f.file_id
    FROM file f
    WHERE f.table_id = %(table_id)s AND f.live_from > moment(%(after)s) AND f.live_from <= moment(%(until)s)
    UNION
    SELECT f.partition_path, f.file_id
    FROM file f
    WHERE f.table_id = %(table_id)s AND f.superseded_at > moment(%(after)s) AND f.superseded_at <= moment(%(until)s)
) AS changed
WHERE (partition_path, file_id) > (%(after_partition)s, %(after_file_id)s)
ORDER BY partition_path, file_id
LIMIT %(groups)s

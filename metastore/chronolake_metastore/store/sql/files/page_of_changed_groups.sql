-- A page of the file groups that changed in a range of times, also if they changed back: groups with a new file, or with
-- a file that was superseded, replaced or withdrawn. Cleaned files do not count, which may have left the database: only a
-- range from the beginning of the table may contain their times, and a group of which nothing else is left is in no slice.
SELECT partition_path, file_id
FROM (
    SELECT f.partition_path, f.file_id
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.live_from > moment(%(after)s)
        AND f.live_from <= moment(%(until)s)
        AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
        AND f.cleaned_by IS NULL
    UNION
    SELECT f.partition_path, f.file_id
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.superseded_at > moment(%(after)s)
        AND f.superseded_at <= moment(%(until)s)
        AND f.cleaned_by IS NULL
) AS changed
WHERE (partition_path, file_id) > (%(after_partition)s, %(after_file_id)s)
ORDER BY partition_path, file_id
LIMIT %(groups)s

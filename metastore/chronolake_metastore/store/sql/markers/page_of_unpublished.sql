-- A page of the markers of an instant whose files it has not published. Markers and files are sorted together: a
-- join would match many thousands with many thousands, and a wrong estimate of the planner would make it slow.
SELECT partition_path, file_name, kind
FROM (
    SELECT partition_path, file_name, kind,
        bool_or(kind IS NULL) OVER (PARTITION BY partition_path, file_name) AS is_published
    FROM (
        SELECT m.partition_path, m.file_name, m.kind
        FROM marker m
        WHERE m.table_id = %(table_id)s
            AND m.requested_time = moment(%(requested_time)s)
            AND (m.partition_path, m.file_name, m.kind) > (%(after_partition)s, %(after_file)s, %(after_kind)s)
        UNION ALL
        -- Files that it published begin their first period with its completion, also if a restore undid it later.
        SELECT f.partition_path, f.file_name, NULL
        FROM instant i
        JOIN file f
            ON f.table_id = i.table_id
            AND f.live_from = coalesce(i.completion_time, i.undone_completion_time)
            AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
        WHERE i.table_id = %(table_id)s
            AND i.requested_time = moment(%(requested_time)s)
            AND (f.partition_path, f.file_name) >= (%(after_partition)s, %(after_file)s)
    ) AS named
) AS judged
WHERE kind IS NOT NULL AND NOT is_published
ORDER BY partition_path, file_name, kind
LIMIT %(markers)s

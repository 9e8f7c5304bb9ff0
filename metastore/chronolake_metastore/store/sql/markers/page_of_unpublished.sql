-- A page of the markers of an instant whose files it has not published. Markers and write stats are sorted together: a
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
        SELECT w.partition_path, w.file_name, NULL
        FROM instant i
        CROSS JOIN LATERAL (
            -- The event that completed the instant. It is the last event of the instant, unless a restore undid it: then
            -- it is an earlier one, which no index has.
            SELECT done.table_id, done.version, done.type, done.payload
            FROM event done
            WHERE done.table_id = i.table_id AND done.version = i.version
            UNION ALL
            SELECT undone.table_id, undone.version, undone.type, undone.payload
            FROM event undone
            WHERE i.undone_completion_time IS NOT NULL
                AND undone.table_id = i.table_id
                AND undone.version < i.version
                AND undone.instant = i.requested_time
        ) AS e
        CROSS JOIN LATERAL (
            SELECT e.version
            UNION ALL
            SELECT staged.version::bigint
            FROM json_array_elements_text(e.payload -> 'staged') AS staged (version)
        ) AS written
        JOIN write_stat w ON w.table_id = e.table_id AND w.version = written.version
        WHERE i.table_id = %(table_id)s
            AND i.requested_time = moment(%(requested_time)s)
            AND e.type = 'InstantCompleted'
            AND (w.partition_path, w.file_name) >= (%(after_partition)s, %(after_file)s)
    ) AS named
) AS judged
WHERE kind IS NOT NULL AND NOT is_published
ORDER BY partition_path, file_name, kind
LIMIT %(markers)s

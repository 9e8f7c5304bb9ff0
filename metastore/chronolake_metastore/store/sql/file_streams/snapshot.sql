-- The data files of the slices that were live as of a completion time and could match a filter: a row for each file, the
-- files of a slice together. The query has two parts, as files/snapshot.sql. The slice of a log file is that of the
-- group's base file, or of its first log file.
SELECT
    f.partition_path,
    f.file_id,
    CASE f.kind
        WHEN 'base' THEN f.requested_time
        ELSE (
            SELECT coalesce(max(s.requested_time) FILTER (WHERE s.kind = 'base'), min(s.requested_time))
            FROM file s
            WHERE (s.table_id, s.partition_path, s.file_id) = (%(table_id)s, f.partition_path, f.file_id)
                AND s.live_from <= moment(%(as_of)s)
                AND (s.superseded_at IS NULL OR s.superseded_at > moment(%(as_of)s))
        )
    END AS base_instant_time,
    f.kind,
    CASE f.partition_path WHEN '' THEN f.file_name ELSE f.partition_path || '/' || f.file_name END AS path,
    f.size_bytes,
    f.records,
    f.requested_time,
    f.completion_time,
    f.schema_version,
    f.has_field_ids
FROM (
    SELECT live.*, {could_match} AS could_match
    FROM (
        SELECT
            partition_path, file_id, kind, file_name, size_bytes, records, requested_time, completion_time, schema_version,
            has_field_ids, column_stats
        FROM file
        WHERE table_id = %(table_id)s AND superseded_at IS NULL AND live_from <= moment(%(as_of)s) AND {wanted}
        UNION ALL
        SELECT
            partition_path, file_id, kind, file_name, size_bytes, records, requested_time, completion_time, schema_version,
            has_field_ids, column_stats
        FROM file
        WHERE table_id = %(table_id)s AND superseded_at > moment(%(as_of)s) AND live_from <= moment(%(as_of)s) AND {wanted}
    ) AS live
    WINDOW file_group AS (PARTITION BY partition_path, file_id)
) AS f
WHERE f.could_match
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name

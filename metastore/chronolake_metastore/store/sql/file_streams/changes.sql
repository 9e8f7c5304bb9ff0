-- The slices of the file groups that changed in (after, until], as of both ends of the range: a row for each data file.
WITH changed AS (
    SELECT partition_path, file_id
    FROM file
    WHERE table_id = %(table_id)s
        AND live_from > moment(%(after)s)
        AND live_from <= moment(%(until)s)
        AND live_from >= completion_time -- always; so that the index on live_from can be used
    UNION
    SELECT partition_path, file_id
    FROM file
    WHERE table_id = %(table_id)s AND superseded_at > moment(%(after)s) AND superseded_at <= moment(%(until)s)
),
sides (side, at) AS (VALUES ('before', moment(%(after)s)), ('after', moment(%(until)s)))
SELECT
    f.partition_path,
    f.file_id,
    coalesce(
        max(f.requested_time) FILTER (WHERE f.kind = 'base') OVER slice,
        min(f.requested_time) OVER slice
    ) AS base_instant_time,
    f.kind,
    CASE f.partition_path WHEN '' THEN f.file_name ELSE f.partition_path || '/' || f.file_name END AS path,
    f.size_bytes,
    f.records,
    f.requested_time,
    f.completion_time,
    f.schema_version,
    f.has_field_ids,
    sides.side
FROM changed
CROSS JOIN sides
JOIN file f
    ON f.table_id = %(table_id)s
    AND f.partition_path = changed.partition_path
    AND f.file_id = changed.file_id
    AND f.live_from <= sides.at
    AND (f.superseded_at IS NULL OR f.superseded_at > sides.at)
WINDOW slice AS (PARTITION BY f.partition_path, f.file_id, sides.side)
ORDER BY f.partition_path, f.file_id, sides.side DESC, f.kind, f.completion_time, f.file_name

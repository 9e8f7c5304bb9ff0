-- For each named file group as of a completion time: the newest base file that was requested up to a time, and the log
-- files between it and the next base file. Files that completed after the replacement of their group are left out.
WITH published AS MATERIALIZED (
    SELECT f.*
    FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    JOIN file f USING (partition_path, file_id)
    WHERE f.table_id = %(table_id)s
        AND f.live_from = f.completion_time
        AND f.completion_time <= moment(%(as_of)s)
        AND (f.withdrawn_at IS NULL OR f.withdrawn_at > moment(%(as_of)s))
        AND NOT EXISTS (
            SELECT
            FROM replaced_group r
            WHERE (r.table_id, r.partition_path, r.file_id) = (f.table_id, f.partition_path, f.file_id)
                AND r.replaced_at <= f.completion_time
                AND (r.withdrawn_at IS NULL OR r.withdrawn_at > moment(%(as_of)s))
        )
),
slice AS (
    SELECT
        partition_path, file_id,
        max(requested_time) FILTER (WHERE requested_time <= moment(%(before_or_on)s)) AS base,
        min(requested_time) FILTER (WHERE requested_time > moment(%(before_or_on)s)) AS next_base
    FROM published
    WHERE kind = 'base'
    GROUP BY partition_path, file_id
)
SELECT {file}
FROM published f
LEFT JOIN slice USING (partition_path, file_id)
WHERE CASE f.kind
    WHEN 'base' THEN f.requested_time = slice.base
    ELSE f.completion_time >= coalesce(slice.base, '-infinity')
        AND f.completion_time < coalesce(slice.next_base, 'infinity')
END
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name

-- Withdrawn instants superseded files, and replaced file groups: what was there before them comes back. For every
-- file of the groups that they touched the slicing rule (supersede_files.sql) and the replacements are asked anew,
-- as if the withdrawn had never been; so it does not matter how many events are projected at once.
WITH withdrawn AS MATERIALIZED (
    SELECT table_id, moment(completion_time) AS at
    FROM unnest(%(table_id)s::uuid[], %(completion_time)s::bigint[]) AS named (table_id, completion_time)
),
touched AS (
    SELECT f.table_id, f.partition_path, f.file_id
    FROM withdrawn
    JOIN file f ON f.table_id = withdrawn.table_id AND f.completion_time = withdrawn.at
    UNION
    SELECT r.table_id, r.partition_path, r.file_id
    FROM withdrawn
    JOIN replaced_group r ON r.table_id = withdrawn.table_id AND r.replaced_at = withdrawn.at
)
UPDATE file f
SET superseded_at = least(
    (
        SELECT min(later.completion_time)
        FROM (
            SELECT base.completion_time
            FROM file base
            WHERE (base.table_id, base.partition_path, base.file_id) = (f.table_id, f.partition_path, f.file_id)
                AND base.kind = 'base'
                AND base.requested_time > CASE f.kind WHEN 'base' THEN f.requested_time ELSE f.completion_time END
                AND NOT EXISTS (
                    SELECT
                    FROM withdrawn
                    WHERE (withdrawn.table_id, withdrawn.at) = (base.table_id, base.completion_time)
                )
            OFFSET 0
        ) AS later
    ),
    (
        SELECT min(greatest(r.replaced_at, f.completion_time))
        FROM replaced_group r
        WHERE (r.table_id, r.partition_path, r.file_id) = (f.table_id, f.partition_path, f.file_id)
            AND NOT EXISTS (
                SELECT FROM withdrawn WHERE (withdrawn.table_id, withdrawn.at) = (r.table_id, r.replaced_at)
            )
    )
)
FROM touched
WHERE (f.table_id, f.partition_path, f.file_id) = (touched.table_id, touched.partition_path, touched.file_id)

-- The first partition in which a clustering reports fewer records than it must: fewer than the base files have that leave
-- the latest slices by it, in file groups without log files. Nothing else is certain. A log file may delete any number of
-- records of a base file in which keys repeat, and of some log files of adopted tables no number is known.
WITH written AS MATERIALIZED (
    SELECT given.partition_path, given.file_id, given.kind, given.records
    FROM unnest(
        %(partition_paths)s::text[], %(file_ids)s::text[], %(kinds)s::text[], %(records)s::numeric[]
    ) AS given (partition_path, file_id, kind, records)
    UNION ALL
    SELECT w.partition_path, w.file_id, w.kind, w.records::numeric + w.deletes
    FROM write_stat w
    WHERE w.table_id = %(table_id)s::uuid AND w.version = ANY (%(versions)s::bigint[])
),
leaving AS MATERIALIZED (
    SELECT replaced.partition_path, replaced.file_id
    FROM unnest(%(replaced_paths)s::text[], %(replaced_ids)s::text[]) AS replaced (partition_path, file_id)
    UNION
    SELECT w.partition_path, w.file_id FROM written w WHERE w.kind = 'base'
),
compared AS (
    SELECT l.partition_path, s.records AS stored, 0 AS reported
    FROM leaving l
    CROSS JOIN LATERAL (
        SELECT sum(live.records) AS records
        FROM (
            SELECT f.kind, f.records
            FROM file f
            WHERE (f.table_id, f.partition_path, f.file_id) = (%(table_id)s::uuid, l.partition_path, l.file_id)
                AND f.superseded_at IS NULL
            ORDER BY f.completion_time
            OFFSET 0
        ) AS live
        HAVING bool_and(live.kind = 'base')
    ) AS s
    UNION ALL
    SELECT w.partition_path, 0, w.records FROM written w
)
SELECT c.partition_path, sum(c.stored), sum(c.reported)
FROM compared c
GROUP BY c.partition_path
HAVING sum(c.stored) > sum(c.reported)
ORDER BY c.partition_path
LIMIT 1

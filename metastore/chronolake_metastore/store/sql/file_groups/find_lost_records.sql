-- Why records would be lost if a table service completed with these files: by file group for a compaction, by partition for
-- a clustering. A file that takes the place of others has as many records as their base files, without those that their log
-- files may have replaced or deleted, and without those that its write stat reports as deleted. It counts the files that the
-- executor has read: those from before the request. Log files are asked for their deletes only where records are missing.
WITH reported AS MATERIALIZED (
    SELECT given.partition_path, given.file_id, given.records
    FROM unnest(%(written_paths)s::text[], %(written_ids)s::text[], %(written_records)s::bigint[])
        AS given (partition_path, file_id, records)
    UNION ALL
    SELECT w.partition_path, w.file_id, w.records + w.deletes
    FROM write_stat w
    WHERE w.table_id = %(table_id)s::uuid AND w.version = ANY (%(versions)s::bigint[])
),
named AS MATERIALIZED (
    SELECT replaced.partition_path, replaced.file_id, '' AS unit
    FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS replaced (partition_path, file_id)
    UNION
    SELECT r.partition_path, r.file_id, r.file_id
    FROM reported r
    WHERE %(by_group)s
),
held AS MATERIALIZED (
    SELECT
        n.partition_path,
        n.unit,
        coalesce(sum(f.records) FILTER (WHERE f.kind = 'base'), 0) AS base_records,
        coalesce(sum(f.records) FILTER (WHERE f.kind = 'log'), 0) AS log_records
    FROM named n
    CROSS JOIN LATERAL (
        SELECT b.kind, b.records
        FROM file b
        WHERE (b.table_id, b.partition_path, b.file_id) = (%(table_id)s::uuid, n.partition_path, n.file_id)
            AND b.superseded_at IS NULL
            AND b.completion_time < moment(%(requested_time)s)
        ORDER BY b.completion_time
        OFFSET 0
    ) AS f
    GROUP BY n.partition_path, n.unit
),
missing AS MATERIALIZED (
    SELECT h.partition_path, h.unit, h.base_records - h.log_records AS least, r.records
    FROM held h
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.records), 0) AS records
        FROM reported w
        WHERE w.partition_path = h.partition_path AND h.unit IN ('', w.file_id)
    ) AS r
    WHERE h.base_records - h.log_records > r.records
)
(
    SELECT 'missing', m.partition_path, m.unit, (m.least - d.deletes)::bigint, m.records::bigint
    FROM missing m
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.deletes), 0) AS deletes
        FROM named n
        JOIN file f
            ON (f.table_id, f.partition_path, f.file_id) = (%(table_id)s::uuid, n.partition_path, n.file_id)
            AND f.superseded_at IS NULL
            AND f.kind = 'log'
            AND f.completion_time < moment(%(requested_time)s)
        JOIN instant i ON i.table_id = f.table_id AND i.requested_time = f.requested_time
        JOIN event e ON e.table_id = i.table_id AND e.version = i.version
        JOIN write_stat w
            ON w.table_id = i.table_id
            AND (w.version = i.version OR e.payload -> 'staged' @> to_jsonb(w.version))
            AND (w.partition_path, w.file_name) = (f.partition_path, f.file_name)
        WHERE n.partition_path = m.partition_path AND n.unit = m.unit
    ) AS d
    WHERE m.least - d.deletes > m.records
    ORDER BY m.partition_path, m.unit
    LIMIT 1
)
UNION ALL
(
    SELECT 'strange', r.partition_path, r.file_id, 0, r.records
    FROM reported r
    WHERE NOT %(by_group)s AND NOT EXISTS (SELECT FROM named n WHERE n.partition_path = r.partition_path)
    ORDER BY r.partition_path, r.file_id
    LIMIT 1
)
UNION ALL
(
    SELECT 'occupied', r.partition_path, r.file_id, 0, r.records
    FROM reported r
    CROSS JOIN LATERAL (
        SELECT
        FROM file b
        WHERE (b.table_id, b.partition_path, b.file_id) = (%(table_id)s::uuid, r.partition_path, r.file_id)
            AND b.superseded_at IS NULL
        ORDER BY b.completion_time
        LIMIT 1
    ) AS live
    WHERE NOT %(by_group)s
    ORDER BY r.partition_path, r.file_id
    LIMIT 1
)

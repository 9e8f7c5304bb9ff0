-- The base files of a state and of its parent in ranges of file groups. A state as of a compaction's request has the files
-- that the compaction wrote, which became live later; other states have the requested time of no instant, for the times of
-- a table are unique. A file may have several periods.
SELECT
    f.partition_path, f.file_id, f.file_name, f.size_bytes, f.records, micros(f.requested_time), micros(f.completion_time),
    f.schema_version, f.has_field_ids, f.column_stats::text,
    (
        f.requested_time = moment(%(parent)s::bigint)
        OR (
            f.live_from <= moment(%(parent)s::bigint)
            AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(parent)s::bigint))
            AND NOT (
                %(has_logs)s::boolean
                AND EXISTS (
                    SELECT
                    FROM file b
                    WHERE (b.table_id, b.partition_path, b.file_id) = (f.table_id, f.partition_path, f.file_id)
                        AND b.requested_time = moment(%(parent)s::bigint)
                        AND b.kind = 'base'
                )
            )
        )
    ) AS in_parent,
    (
        f.requested_time = moment(%(state)s::bigint)
        OR (
            f.live_from <= moment(%(state)s::bigint)
            AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(state)s::bigint))
            AND NOT (
                %(has_logs)s::boolean
                AND EXISTS (
                    SELECT
                    FROM file b
                    WHERE (b.table_id, b.partition_path, b.file_id) = (f.table_id, f.partition_path, f.file_id)
                        AND b.requested_time = moment(%(state)s::bigint)
                        AND b.kind = 'base'
                )
            )
        )
    ) AS in_state
FROM unnest(
    %(after_partitions)s::text[], %(after_file_ids)s::text[], %(last_partitions)s::text[], %(last_file_ids)s::text[]
) AS r (after_partition, after_file_id, last_partition, last_file_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM file live
    WHERE live.table_id = %(table_id)s
        AND live.superseded_at IS NULL
        AND live.live_from <= moment(%(until)s::bigint)
        AND live.kind = 'base'
        AND (live.partition_path, live.file_id) > (r.after_partition, r.after_file_id)
        AND (r.last_partition IS NULL OR (live.partition_path, live.file_id) <= (r.last_partition, r.last_file_id))
    UNION ALL
    SELECT *
    FROM file former
    WHERE former.table_id = %(table_id)s
        AND former.superseded_at > moment(%(since)s::bigint)
        AND former.live_from <= moment(%(until)s::bigint)
        AND former.kind = 'base'
        AND (former.partition_path, former.file_id) > (r.after_partition, r.after_file_id)
        AND (r.last_partition IS NULL OR (former.partition_path, former.file_id) <= (r.last_partition, r.last_file_id))
) AS f
ORDER BY f.partition_path, f.file_id, f.file_name
LIMIT %(rows)s

-- The newest states of a merge-on-read table whose rows are in base files alone: the state that a completion made, if no
-- log file was in a slice then; and the state as of a compaction's request, if the compaction has rewritten all file
-- groups that had log files then. The latter are the base files that it wrote and those of all other file groups.
WITH logs AS MATERIALIZED (
    SELECT coalesce(range_agg(tstzrange(f.live_from, f.superseded_at)), '{}'::tstzmultirange) AS times
    FROM file f
    WHERE f.table_id = %(table_id)s
        AND f.kind = 'log'
        AND (f.superseded_at IS NULL OR f.superseded_at > moment(coalesce(%(served_from)s::bigint, 0)))
)
SELECT micros(cut.time), micros(cut.completion_time), micros(cut.requested_time), cut.operation
FROM (
    SELECT i.completion_time AS time, i.completion_time, i.requested_time, i.operation
    FROM instant i, logs
    WHERE i.table_id = %(table_id)s
        AND i.completion_time IS NOT NULL
        AND i.completion_time >= moment(coalesce(%(served_from)s::bigint, 0))
        AND i.action = ANY (%(actions)s)
        AND NOT i.completion_time <@ logs.times
    UNION ALL
    SELECT i.requested_time, i.completion_time, i.requested_time, i.operation
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.operation = 'compact'
        AND i.completion_time IS NOT NULL
        AND i.requested_time >= moment(coalesce(%(served_from)s::bigint, 0))
        AND NOT EXISTS (
            SELECT
            FROM file log
            WHERE log.table_id = i.table_id
                AND log.kind = 'log'
                AND log.live_from <= i.requested_time
                AND (log.superseded_at IS NULL OR log.superseded_at > i.requested_time)
                AND NOT EXISTS (
                    SELECT
                    FROM file base
                    WHERE (base.table_id, base.partition_path, base.file_id)
                        = (log.table_id, log.partition_path, log.file_id)
                        AND base.requested_time = i.requested_time
                        AND base.kind = 'base'
                )
        )
    ORDER BY 1 DESC
    LIMIT %(limit)s
) AS cut
ORDER BY cut.time

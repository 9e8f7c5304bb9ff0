-- Whether a state has a base file f. A state as of a compaction's request has the files that the compaction wrote, which
-- became live later; other states have the requested time of no instant, for the times of a table are unique.
f.requested_time = moment(%({state})s::bigint)
OR (
    f.live_from <= moment(%({state})s::bigint)
    AND (f.superseded_at IS NULL OR f.superseded_at > moment(%({state})s::bigint))
    AND NOT (
        %(has_logs)s::boolean
        AND EXISTS (
            SELECT
            FROM file b
            WHERE (b.table_id, b.partition_path, b.file_id) = (f.table_id, f.partition_path, f.file_id)
                AND b.requested_time = moment(%({state})s::bigint)
                AND b.kind = 'base'
        )
    )
)

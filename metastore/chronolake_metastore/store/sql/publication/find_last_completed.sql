-- For cleans: the greatest requested time of the writes that had completed when the clean was requested. Hudi counts from
-- there the commits after which the next clean is due.
SELECT
    micros(named.clean),
    micros((
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            AND i.requested_time < named.clean
            AND coalesce(i.completion_time, i.undone_completion_time) < named.clean
            AND (i.completion_time IS NOT NULL OR i.rolled_back_by > named.clean)
        ORDER BY i.requested_time DESC
        LIMIT 1
    ))
FROM (SELECT moment(clean) AS clean FROM unnest(%(cleans)s::bigint[]) AS given (clean)) AS named

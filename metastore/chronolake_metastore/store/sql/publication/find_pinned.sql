-- For cleans: the instants that savepoints pinned when the clean was requested.
SELECT micros(named.clean), micros(s.target)
FROM (SELECT moment(clean) AS clean FROM unnest(%(cleans)s::bigint[]) AS given (clean)) AS named
JOIN instant s
    ON s.table_id = %(table_id)s
    AND s.action = 'savepoint'
    AND coalesce(s.completion_time, s.undone_completion_time) < named.clean
WHERE s.rolled_back_at IS NULL OR s.rolled_back_at > named.clean
ORDER BY named.clean, s.target

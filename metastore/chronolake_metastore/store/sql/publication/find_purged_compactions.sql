-- Compactions that a restore undid after their completion, of whose files a clean has deleted the last.
SELECT micros(named.clean), micros(i.requested_time)
FROM (SELECT moment(clean) AS clean FROM unnest(%(cleans)s::bigint[]) AS given (clean)) AS named
JOIN instant i
    ON i.table_id = %(table_id)s
    AND i.undone_completion_time IS NOT NULL
    AND i.operation = 'compact'
WHERE EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = i.table_id
            AND f.live_from = i.undone_completion_time
            AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
            AND f.cleaned_by = named.clean
    )
    AND NOT EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = i.table_id
            AND f.live_from = i.undone_completion_time
            AND f.live_from >= f.completion_time
            AND (f.cleaned_by IS NULL OR f.cleaned_by > named.clean)
    )
ORDER BY named.clean, i.requested_time

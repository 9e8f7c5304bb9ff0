-- For cleans: the greatest requested time of what had completed by the first time that the table is served as of. Hudi reads
-- as of requested times, and from this one on no read needs a file that was cleaned.
SELECT
    named.clean,
    micros((
        SELECT max(i.requested_time)
        FROM instant i
        WHERE i.table_id = %(table_id)s
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            AND coalesce(i.completion_time, i.undone_completion_time) <= moment(named.cleaned_before)
            AND (i.completion_time IS NOT NULL OR i.rolled_back_by > moment(named.time))
    ))
FROM unnest(%(cleans)s::bigint[], %(cleaned_before)s::bigint[], %(times)s::bigint[]) AS named (clean, cleaned_before, time)

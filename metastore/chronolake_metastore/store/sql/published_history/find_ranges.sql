-- The end of the file of the history that begins at a time: the first commit that the file has no more room for. Null if all
-- instants before the end of the history fit in.
SELECT micros(min(requested_time))
FROM (
    SELECT
        i.requested_time,
        row_number() OVER instants AS number,
        sum(2048 + 512 * coalesce((i.summary ->> 'files')::bigint, 0)) OVER instants AS bytes
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.requested_time >= moment(%(begin)s)
        AND i.requested_time < moment(%(end)s)
        AND i.state = 'completed'
        AND i.action IN ('commit', 'deltacommit', 'replacecommit')
    WINDOW instants AS (ORDER BY i.requested_time)
    ORDER BY i.requested_time
    LIMIT %(rows_max)s + 1
) AS instants
WHERE number > 1 AND (number > %(rows_max)s OR bytes > %(bytes_max)s)

-- The number of the published commits on the active timeline, up to a limit.
SELECT count(*)
FROM (
    SELECT
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.requested_time >= moment(%(begin)s)
        AND i.state = 'completed'
        AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        AND i.completion_time <= moment(%(published)s)
    LIMIT %(limit)s
) AS commits

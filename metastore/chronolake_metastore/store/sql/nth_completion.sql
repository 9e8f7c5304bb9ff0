-- When the nth of what completed in a range did so, be it undone since or not.
SELECT micros(done.completed)
FROM (
    SELECT i.completion_time AS completed
    FROM instant i
    WHERE i.table_id = :table_id
        AND i.completion_time > moment(:after)
        AND i.completion_time <= moment(:until)
        AND i.action = ANY (:actions)
    UNION ALL
    SELECT i.undone_completion_time
    FROM instant i
    WHERE i.table_id = :table_id
        AND i.undone_completion_time > moment(:after)
        AND i.undone_completion_time <= moment(:until)
) AS done
ORDER BY done.completed
OFFSET :nth - 1
LIMIT 1

-- The clean that is planned for a table and not executed, if there is one.
SELECT {instant}
FROM instant i
WHERE i.table_id = %(table_id)s::uuid
    AND i.state IN ('requested', 'inflight')
    AND i.action = 'clean'
    AND i.plan ? 'cleaned_before'
ORDER BY i.requested_time
LIMIT 1

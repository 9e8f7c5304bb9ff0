-- For each service of some tables, its newest plan if the server rolled that back because no executor had completed it in
-- time.
SELECT t.table_id, known.service, micros(newest.requested_time), newest.rollback_reason
FROM unnest(%(table_ids)s::uuid[]) AS t (table_id)
CROSS JOIN (
    VALUES ('compaction', 'compact'), ('log-compaction', 'log_compact'), ('clustering', 'cluster')
) AS known (service, operation)
CROSS JOIN LATERAL (
    SELECT i.requested_time, i.rollback_cause, i.rollback_reason
    FROM instant i
    WHERE i.table_id = t.table_id
        AND i.operation IN ('compact', 'log_compact', 'cluster')
        AND i.operation = known.operation
    ORDER BY i.requested_time DESC
    LIMIT 1
) AS newest
WHERE newest.rollback_cause = 'expired'

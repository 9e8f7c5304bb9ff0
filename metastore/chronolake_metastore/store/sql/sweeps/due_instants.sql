-- The instants of a table that have ended and are due for a sweep: their last deletion was reported at least a grace
-- period ago. The longest ago comes first.
SELECT
    micros(i.unswept_since), micros(i.grace_began_at), micros(i.requested_time), i.action, i.state,
    CASE WHEN i.action = 'rollback' AND (i.plan ->> 'direct_markers')::boolean THEN micros(i.target) END
FROM instant i
WHERE i.table_id = %(table_id)s
    AND i.state IN ('completed', 'rolled_back')
    -- The clock is read in a subquery: with a volatile function in the condition the index could not be used.
    AND i.grace_began_at <= (SELECT moment(steady_us() - %(grace_us)s::bigint))
    AND (
        NOT %(leases)s::boolean
        OR i.grace_began_at + i.lease_seconds * interval '1 second' <= (SELECT moment(steady_us()))
    )
    AND (i.grace_began_at, i.requested_time) > (moment(%(after_grace)s), moment(%(after_time)s))
ORDER BY i.grace_began_at, i.requested_time
LIMIT %(limit)s

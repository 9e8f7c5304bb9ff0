-- Renew a lease. A lease that has ended is renewed too, if the table can still be read as of its time. A lease that holds
-- all later times may move forward, and never back.
UPDATE reader r
SET
    lease_seconds = renewed.lease_seconds,
    expires_at = moment(%(now)s + 1000000 * renewed.lease_seconds),
    as_of = CASE WHEN r.follows THEN greatest(r.as_of, moment(%(as_of)s::bigint)) ELSE r.as_of END
FROM (
    SELECT coalesce(%(lease_seconds)s::int, held.lease_seconds)::bigint AS lease_seconds
    FROM reader held
    WHERE held.table_id = %(table_id)s
        AND held.lease_id = %(lease_id)s
        AND (
            held.expires_at > moment(%(now)s)
            OR %(served_from)s::bigint IS NULL
            OR held.as_of >= moment(%(served_from)s::bigint)
        )
) AS renewed
WHERE r.table_id = %(table_id)s AND r.lease_id = %(lease_id)s
RETURNING r.lease_id, r.reader, micros(r.as_of), r.follows, r.lease_seconds, micros(r.expires_at)

-- One that has ended too, unless its time is not served any more by now.
UPDATE reader r
SET lease_seconds = renewed.lease_seconds, expires_at = moment(:now + 1000000 * renewed.lease_seconds)
FROM (
    SELECT coalesce(CAST(:lease_seconds AS int), held.lease_seconds)::bigint AS lease_seconds
    FROM reader held
    WHERE held.table_id = :table_id
        AND held.lease_id = :lease_id
        AND (
            held.expires_at > moment(:now)
            OR CAST(:served_from AS bigint) IS NULL
            OR held.as_of >= moment(CAST(:served_from AS bigint))
        )
) AS renewed
WHERE r.table_id = :table_id AND r.lease_id = :lease_id
RETURNING r.lease_id, r.reader, micros(r.as_of), r.lease_seconds, micros(r.expires_at)

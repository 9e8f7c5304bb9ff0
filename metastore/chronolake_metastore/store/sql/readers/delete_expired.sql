-- A lease that is renewed at this moment is locked, and stays.
DELETE FROM reader
WHERE (table_id, lease_id) IN (
    SELECT r.table_id, r.lease_id
    FROM reader r
    WHERE r.expires_at <= moment(%(until)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)

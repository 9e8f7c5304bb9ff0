-- Delete expired leases. A lease that another transaction is renewing is locked, so it is skipped.
DELETE FROM reader
WHERE (table_id, lease_id) IN (
    SELECT r.table_id, r.lease_id
    FROM reader r
    WHERE r.expires_at <= moment(%(until)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)

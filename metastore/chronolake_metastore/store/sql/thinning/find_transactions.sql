-- The transactions of this database that are open now, those that only read too. Elections of leaders read nothing.
SELECT l.virtualtransaction
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid'
    AND l.pid <> pg_backend_pid()
    AND a.datname = current_database()
    AND a.backend_type IN ('client backend', 'parallel worker')
    AND NOT EXISTS (
        SELECT
        FROM pg_locks e
        WHERE e.locktype = 'advisory' AND e.classid = %(election)s::bigint::oid AND e.objsubid = 2 AND e.pid = l.pid
    )

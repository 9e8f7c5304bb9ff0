-- The present identity, and whether it is of this PostgreSQL; the last event of the log, and whether the log has an event
-- that a caller has seen.
SELECT
    m.metastore_id,
    m.place IS NOT DISTINCT FROM here.place AND (m.database = here.database OR EXISTS (
        SELECT FROM promotion p WHERE p.metastore_id = m.metastore_id AND p.database = here.database
    )),
    -- The same cluster and database, on a timeline of the WAL that began later.
    m.place IS NOT DISTINCT FROM here.place
        AND split_part(m.database, '/', 1) = split_part(here.database, '/', 1)
        AND split_part(m.database, '/', 2) = split_part(here.database, '/', 2)
        AND split_part(m.database, '/', 3) < split_part(here.database, '/', 3)
        AND NOT pg_is_in_recovery(),
    last_event.transaction_id::text, last_event.position, last_event.hash,
    %(position)s::bigint IS NULL OR EXISTS (
        SELECT
        FROM event e
        WHERE e.transaction_id = %(transaction_id)s::text::xid8 AND e.position = %(position)s AND e.hash = %(hash)s
    ) OR EXISTS (
        -- It may have left for the archive.
        SELECT
        FROM era
        JOIN archived_era a ON a.era = era.era
        WHERE era.events_left_at IS NOT NULL AND a.archived_before > %(transaction_id)s::text::bigint
    )
FROM metastore m
CROSS JOIN (
    SELECT this_database() AS database, nullif(current_setting('chronolake.place', true), '') AS place
) AS here
LEFT JOIN LATERAL (
    SELECT e.transaction_id, e.position, e.hash
    FROM event e
    ORDER BY e.transaction_id DESC, e.position DESC
    LIMIT 1
) AS last_event ON true
ORDER BY m.position DESC
LIMIT 1

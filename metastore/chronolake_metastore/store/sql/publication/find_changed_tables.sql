-- The tables with events after a place in the order across tables, and the place after the last of them. No event is
-- passed that an open transaction may still precede.
WITH next_events AS (
    SELECT e.transaction_id, e.position, e.table_id, e.type
    FROM event e
    WHERE (e.transaction_id, e.position) > (%(transaction_id)s::text::xid8, %(position)s::bigint)
        AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY e.transaction_id, e.position
    LIMIT %(limit)s
)
SELECT
    (SELECT n.transaction_id::text FROM next_events n ORDER BY n.transaction_id DESC, n.position DESC LIMIT 1),
    (SELECT n.position FROM next_events n ORDER BY n.transaction_id DESC, n.position DESC LIMIT 1),
    ARRAY(SELECT DISTINCT n.table_id FROM next_events n),
    ARRAY(SELECT DISTINCT n.table_id FROM next_events n WHERE n.type = ANY (%(altering)s::text[])),
    ARRAY(SELECT DISTINCT n.table_id FROM next_events n WHERE n.type = ANY (%(progressing)s::text[])),
    (SELECT count(*) FROM next_events)

-- The transaction before which a run ends: after that of the last event that it may have, and never past the oldest open
-- transaction, before which nothing appears any more.
SELECT
    coalesce(
        (
            SELECT e.transaction_id::text::bigint + 1
            FROM event e
            WHERE e.transaction_id >= %(begin)s::xid8 AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position
            OFFSET %(events_max)s - 1 LIMIT 1
        ),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ),
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- The lag of an archive that ends before a transaction: transactions until the oldest open one, the age of the first event
-- after the end, and the time since the end of the oldest era whose answers PostgreSQL has.
SELECT
    greatest(pg_snapshot_xmin(pg_current_snapshot())::text::bigint - %(end)s::text::bigint, 0),
    coalesce(
        (
            SELECT greatest(extract(epoch FROM now() - e.time), 0)
            FROM event e
            WHERE e.transaction_id >= %(end)s::text::xid8
            ORDER BY e.transaction_id, e.position
            LIMIT 1
        ),
        0
    )::float8,
    coalesce(
        (
            SELECT extract(epoch FROM now() - later.began_at)
            FROM era e
            JOIN era later ON later.era = e.era + 1
            WHERE e.answers_dropped_at IS NULL
            ORDER BY e.era
            LIMIT 1
        ),
        0
    )::float8

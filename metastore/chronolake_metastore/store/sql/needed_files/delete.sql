-- Delete some files of a table that have left, in the order in which they left the latest slices: the last that was looked
-- at, and the number.
WITH next AS MATERIALIZED (
    SELECT f.ctid AS place, f.superseded_at, f.version, f.ordinal, f.live_from, {leaves} AS leaves
    FROM first_event b
    JOIN file f
        ON f.table_id = b.table_id
        AND f.superseded_at < b.files_from
        AND f.superseded_at >= moment(%(superseded_at)s::bigint)
    WHERE b.table_id = %(table_id)s::uuid
        -- Rows of instants that decide which files stay may have left, if the border of the instants has moved alone.
        AND b.files_from = b.instants_from
        AND (f.superseded_at, f.version, f.ordinal, f.live_from)
            > (moment(%(superseded_at)s::bigint), %(version)s::bigint, %(ordinal)s::int, moment(%(live_from)s::bigint))
    ORDER BY f.superseded_at, f.version, f.ordinal, f.live_from
    LIMIT %(rows)s
),
deleted AS (
    DELETE FROM file WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE leaves)) RETURNING 1
)
SELECT micros(n.superseded_at), n.version, n.ordinal, micros(n.live_from), (SELECT count(*) FROM deleted)
FROM next n
ORDER BY n.superseded_at DESC, n.version DESC, n.ordinal DESC, n.live_from DESC
LIMIT 1

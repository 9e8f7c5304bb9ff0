-- Delete some instants of a table that have left, after a requested time: the last time that was looked at, and the number.
WITH next AS MATERIALIZED (
    SELECT i.ctid AS place, i.requested_time, {stays} AS stays
    FROM first_event f
    JOIN instant i ON i.table_id = f.table_id AND i.requested_time < f.instants_from
    WHERE f.table_id = %(table_id)s::uuid AND i.requested_time > moment(%(after)s::bigint)
    ORDER BY i.requested_time
    LIMIT %(rows)s
),
deleted AS (
    DELETE FROM instant WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE NOT stays)) RETURNING 1
)
SELECT micros(max(n.requested_time)), (SELECT count(*) FROM deleted) FROM next n

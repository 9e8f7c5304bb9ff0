-- The completion times of instants, in the order of the requested times. They are one array, because returning thousands
-- of rows would cost more than finding them. The subquery looks each up by the index: for a join the planner would read
-- the whole timeline. And the time before which the archive may have more.
SELECT
    ARRAY(
        SELECT (
            SELECT micros(i.completion_time)
            FROM instant i
            WHERE i.table_id = %(table_id)s AND i.requested_time = moment(named.requested_time)
        )
        FROM unnest(%(requested_times)s::text::bigint[]) WITH ORDINALITY AS named (requested_time, nth)
        ORDER BY named.nth
    ),
    (SELECT micros(f.instants_from) FROM first_event f WHERE f.table_id = %(table_id)s)

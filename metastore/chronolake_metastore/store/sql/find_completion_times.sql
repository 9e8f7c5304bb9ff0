-- In the order of the requested times, and as one value: thousands of rows would cost more than finding them. As a
-- subquery, each is looked up by the index: for a join of many, the planner would rather read the whole timeline.
SELECT ARRAY(
    SELECT (
        SELECT micros(i.completion_time)
        FROM instant i
        WHERE i.table_id = :table_id AND i.requested_time = moment(named.requested_time)
    )
    FROM unnest(CAST(CAST(:requested_times AS text) AS bigint[])) WITH ORDINALITY AS named (requested_time, nth)
    ORDER BY named.nth
)

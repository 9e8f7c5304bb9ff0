-- Delete the markers of those instants that have few of them. To delete many would keep the lock of the table for long.
DELETE FROM marker
WHERE ctid = ANY (
    ARRAY(
        SELECT unnest(few.places)
        FROM unnest(%(table_ids)s::uuid[], %(requested_times)s::bigint[]) AS completed (table_id, requested_time)
        CROSS JOIN LATERAL (
            SELECT array_agg(counted.ctid) AS places
            FROM (
                SELECT m.ctid
                FROM marker m
                WHERE m.table_id = completed.table_id AND m.requested_time = moment(completed.requested_time)
                LIMIT %(markers_max)s::integer + 1
            ) AS counted
        ) AS few
        WHERE cardinality(few.places) <= %(markers_max)s::integer
    )
)

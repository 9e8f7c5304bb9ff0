-- Fail if an instant has a marker although its end was decided on the assumption that it has none. It runs after the
-- statement that ends the instants: from then on no marker of them can be created.
SELECT refuse_late_marker(moment(ended.requested_time))
FROM unnest(%(table_ids)s::uuid[], %(requested_times)s::bigint[]) AS ended (table_id, requested_time)
WHERE EXISTS (
    SELECT FROM marker m WHERE m.table_id = ended.table_id AND m.requested_time = moment(ended.requested_time)
)

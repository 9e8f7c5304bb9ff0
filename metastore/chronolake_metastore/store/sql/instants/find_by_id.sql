-- The named instants, of dropped tables too: the log has events of all tables.
SELECT {instant}
FROM instant i
JOIN unnest(%(table_ids)s::uuid[], %(requested_times)s::bigint[]) AS named (table_id, requested_time)
    ON i.table_id = named.table_id AND i.requested_time = moment(named.requested_time)

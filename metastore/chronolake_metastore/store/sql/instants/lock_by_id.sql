-- Lock instants, so that no other transaction creates markers of them. The order is that of markers/create.sql.
SELECT i.requested_time
FROM instant i
JOIN unnest(%(table_ids)s::uuid[], %(requested_times)s::bigint[]) AS named (table_id, requested_time)
    ON i.table_id = named.table_id AND i.requested_time = moment(named.requested_time)
ORDER BY i.table_id, i.requested_time
FOR NO KEY UPDATE OF i

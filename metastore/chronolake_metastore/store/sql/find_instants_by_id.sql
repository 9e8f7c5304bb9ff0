-- Dropped tables too: for the log goes through all of them.
SELECT
    i.table_id, micros(i.requested_time), i.action, i.operation, i.state, i.writer, i.lease_seconds,
    micros(i.lease_expires_at), i.version, micros(i.completion_time), i.rollback_reason, i.summary::text,
    i.extra_metadata::text, micros(i.target), micros(i.rolled_back_by), i.plan::text
FROM instant i
JOIN unnest(%(table_ids)s::uuid[], %(requested_times)s::bigint[]) AS named (table_id, requested_time)
    ON i.table_id = named.table_id AND i.requested_time = moment(named.requested_time)

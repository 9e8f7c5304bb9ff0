-- All streams of the named live tables, each with the checkpoints in its buffer: one row per checkpoint, or one without.
SELECT
    s.table_id, s.name, s.epoch, s.writer, micros(s.opened_at), s.is_open, s.tasks, s.lease_seconds,
    micros(s.lease_expires_at), s.acknowledged, s.attempts::text, s.ended::text, s.version, s.lost,
    c.checkpoint, micros(c.requested_time), c.epoch, c.is_blocking, c.tasks::text
FROM unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN stream s ON s.table_id = t.table_id
LEFT JOIN stream_checkpoint c ON c.table_id = s.table_id AND c.stream = s.name
ORDER BY s.table_id, s.name, c.checkpoint

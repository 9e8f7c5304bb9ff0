-- The streams of a table after a name, each with the checkpoints in its buffer: one row per checkpoint, or one without.
SELECT
    s.table_id, s.name, s.epoch, s.writer, micros(s.opened_at), s.is_open, s.tasks, s.lease_seconds,
    micros(s.lease_expires_at), s.acknowledged, s.attempts::text, s.ended::text, s.version, s.lost,
    c.checkpoint, micros(c.requested_time), c.epoch, c.is_blocking, c.tasks::text
FROM (
    SELECT *
    FROM stream
    WHERE table_id = %(table_id)s AND name > %(after)s
    ORDER BY name
    LIMIT %(limit)s
) AS s
LEFT JOIN stream_checkpoint c ON c.table_id = s.table_id AND c.stream = s.name
ORDER BY s.name, c.checkpoint

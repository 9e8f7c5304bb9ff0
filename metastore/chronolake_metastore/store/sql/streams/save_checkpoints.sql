-- Save the checkpoints in buffers of streams in their present state.
INSERT INTO stream_checkpoint (
    table_id, stream, checkpoint, requested_time, epoch, is_blocking, is_reported, size_bytes, tasks
)
SELECT table_id, stream, checkpoint, moment(requested_time), epoch, is_blocking, is_reported, size_bytes::numeric,
    tasks::jsonb
FROM unnest(
    %(table_id)s::uuid[], %(stream)s::text[], %(checkpoint)s::bigint[], %(requested_time)s::bigint[],
    %(epoch)s::bigint[], %(is_blocking)s::boolean[], %(is_reported)s::boolean[], %(size_bytes)s::text[],
    %(tasks)s::text[]
) AS saved (table_id, stream, checkpoint, requested_time, epoch, is_blocking, is_reported, size_bytes, tasks)
ON CONFLICT ON CONSTRAINT stream_checkpoint_unique DO UPDATE
SET
    requested_time = excluded.requested_time,
    epoch = excluded.epoch,
    is_blocking = excluded.is_blocking,
    is_reported = excluded.is_reported,
    size_bytes = excluded.size_bytes,
    tasks = excluded.tasks

-- Save streams in their present state.
INSERT INTO stream (
    table_id, name, epoch, writer, opened_at, is_open, tasks, lease_seconds, lease_expires_at, acknowledged, attempts,
    ended, version, lost
)
SELECT
    table_id, name, epoch, writer, moment(opened_at), is_open, tasks, lease_seconds, moment(lease_expires_at),
    acknowledged, attempts::jsonb, ended::jsonb, version, lost
FROM unnest(
    %(table_id)s::uuid[], %(name)s::text[], %(epoch)s::bigint[], %(writer)s::text[], %(opened_at)s::bigint[],
    %(is_open)s::boolean[], %(tasks)s::int[], %(lease_seconds)s::int[], %(lease_expires_at)s::bigint[],
    %(acknowledged)s::bigint[], %(attempts)s::text[], %(ended)s::text[], %(version)s::bigint[],
    %(lost)s::bigint[]
) AS saved (
    table_id, name, epoch, writer, opened_at, is_open, tasks, lease_seconds, lease_expires_at, acknowledged, attempts,
    ended, version, lost
)
ON CONFLICT ON CONSTRAINT stream_name_unique DO UPDATE
SET
    epoch = excluded.epoch,
    writer = excluded.writer,
    opened_at = excluded.opened_at,
    is_open = excluded.is_open,
    tasks = excluded.tasks,
    lease_seconds = excluded.lease_seconds,
    lease_expires_at = excluded.lease_expires_at,
    acknowledged = excluded.acknowledged,
    attempts = excluded.attempts,
    ended = excluded.ended,
    version = excluded.version,
    lost = excluded.lost

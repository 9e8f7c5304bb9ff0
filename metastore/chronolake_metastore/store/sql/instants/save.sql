INSERT INTO instant (
    table_id, requested_time, action, operation, state, writer, lease_seconds, lease_expires_at, version,
    completion_time, rollback_reason, summary, extra_metadata, target, rolled_back_by,
    undone_completion_time, plan, schema_version, unswept_since
)
SELECT
    table_id, moment(requested_time), action, operation, state, writer, lease_seconds, moment(lease_expires_at), version,
    moment(completion_time), rollback_reason, summary::jsonb, extra_metadata::jsonb, moment(target),
    moment(rolled_back_by), moment(undone_completion_time), plan::jsonb, schema_version,
    moment(unswept_since)
FROM unnest(
    %(table_id)s::uuid[], %(requested_time)s::bigint[], %(action)s::text[], %(operation)s::text[], %(state)s::text[],
    %(writer)s::text[], %(lease_seconds)s::integer[], %(lease_expires_at)s::bigint[], %(version)s::bigint[],
    %(completion_time)s::bigint[], %(rollback_reason)s::text[], %(summary)s::text[], %(extra_metadata)s::text[],
    %(target)s::bigint[], %(rolled_back_by)s::bigint[],
    %(undone_completion_time)s::bigint[], %(plan)s::text[], %(schema_version)s::integer[],
    %(unswept_since)s::bigint[]
) AS saved (
    table_id, requested_time, action, operation, state, writer, lease_seconds, lease_expires_at, version,
    completion_time, rollback_reason, summary, extra_metadata, target, rolled_back_by,
    undone_completion_time, plan, schema_version, unswept_since
)
ON CONFLICT ON CONSTRAINT instant_requested_unique DO UPDATE
SET action = excluded.action,
    state = excluded.state,
    writer = excluded.writer,
    lease_seconds = excluded.lease_seconds,
    lease_expires_at = excluded.lease_expires_at,
    version = excluded.version,
    completion_time = excluded.completion_time,
    rollback_reason = excluded.rollback_reason,
    summary = excluded.summary,
    extra_metadata = excluded.extra_metadata,
    rolled_back_by = excluded.rolled_back_by,
    undone_completion_time = excluded.undone_completion_time,
    schema_version = excluded.schema_version,
    unswept_since = excluded.unswept_since

UPDATE publication
SET hidden_until = %(hidden_until)s,
    epoch = %(epoch)s,
    publisher = %(publisher)s,
    lease_expires_at = moment(%(lease_expires_at)s::bigint),
    paused_version = %(paused_version)s,
    paused_reason = %(paused_reason)s,
    paused_since = moment(%(paused_since)s::bigint),
    failure = NULL
WHERE table_id = %(table_id)s

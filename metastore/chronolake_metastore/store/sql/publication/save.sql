UPDATE publication
SET hidden_until = %(hidden_until)s,
    hidden_at = moment(%(hidden_at)s::bigint),
    epoch = %(epoch)s,
    publisher = %(publisher)s,
    lease_expires_at = moment(%(lease_expires_at)s::bigint),
    paused_version = %(paused_version)s,
    paused_reason = %(paused_reason)s,
    paused_since = moment(%(paused_since)s::bigint),
    -- A lease is no success: the failure stays until something is published, or until it pauses.
    failure = CASE WHEN %(paused_version)s::bigint IS NULL THEN failure END
WHERE table_id = %(table_id)s

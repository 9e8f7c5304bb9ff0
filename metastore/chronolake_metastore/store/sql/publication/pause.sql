-- The published version decides: a slower publisher does not pause the table at an event that another one has passed.
UPDATE publication p
SET paused_version = %(version)s,
    paused_reason = %(reason)s,
    paused_since = moment(%(now)s),
    lease_expires_at = NULL
WHERE p.table_id = %(table_id)s AND p.published_version < %(version)s AND p.paused_version IS NULL

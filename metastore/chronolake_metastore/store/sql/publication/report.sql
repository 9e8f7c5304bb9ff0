-- Only the publisher of the epoch reports. A page that was reported before moves nothing back. The completion stays while the
-- event is only in the archive: the table is hidden until later events are published.
UPDATE publication p
SET published_version = greatest(p.published_version, %(version)s),
    published_completion = greatest(
        p.published_completion,
        (SELECT e.time FROM event e WHERE e.table_id = p.table_id AND e.version = %(version)s)
    ),
    published_at = moment(%(now)s),
    hidden_until = CASE WHEN p.hidden_until > greatest(p.published_version, %(version)s) THEN p.hidden_until END,
    hidden_at = CASE WHEN %(hidden)s THEN coalesce(p.hidden_at, moment(%(now)s)) ELSE p.hidden_at END,
    -- A publisher without progress does not extend its lease.
    lease_expires_at = CASE
        WHEN %(release)s THEN NULL
        WHEN %(version)s > p.published_version THEN greatest(p.lease_expires_at, moment(%(lease_expires_at)s))
        ELSE p.lease_expires_at
    END,
    foreign_files = coalesce(%(foreign_files)s::text::jsonb, p.foreign_files),
    check_position = coalesce(%(check_position)s::text::jsonb, p.check_position),
    history = coalesce(%(history)s::text::jsonb, p.history),
    checked_at = CASE WHEN %(foreign_files)s::text IS NULL THEN p.checked_at ELSE moment(%(now)s) END,
    -- A report without progress may be that of a publisher that has failed.
    failure = CASE
        WHEN %(version)s <= p.published_version AND %(foreign_files)s::text IS NULL AND NOT %(hidden)s THEN p.failure
    END
WHERE p.table_id = %(table_id)s AND p.epoch = %(epoch)s AND p.publisher = %(publisher)s

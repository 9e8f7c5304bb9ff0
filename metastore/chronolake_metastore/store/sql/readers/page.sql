SELECT r.lease_id, r.reader, micros(r.as_of), r.follows, r.lease_seconds, micros(r.expires_at)
FROM reader r
WHERE r.table_id = %(table_id)s AND r.expires_at > moment(%(now)s) AND r.lease_id > %(after)s
ORDER BY r.lease_id
LIMIT %(limit)s

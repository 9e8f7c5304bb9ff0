-- The events that made the table and changed its name and properties, up to a version.
SELECT version, micros(time), type, payload::text
FROM event
WHERE table_id = %(table_id)s AND version <= %(until)s AND type IN ('TableCreated', 'TableAltered', 'TableDropped')
ORDER BY version

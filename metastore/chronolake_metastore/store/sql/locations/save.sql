INSERT INTO location (namespace, location, is_allowed, version)
SELECT * FROM unnest(%(namespace)s::text[], %(location)s::text[], %(is_allowed)s::boolean[], %(version)s::bigint[])
ON CONFLICT ON CONSTRAINT location_unique DO UPDATE
SET is_allowed = excluded.is_allowed, version = excluded.version

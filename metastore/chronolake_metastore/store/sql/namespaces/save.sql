INSERT INTO namespace (name, properties, created_at)
SELECT name, properties::jsonb, moment(created_at)
FROM unnest(%(name)s::text[], %(properties)s::text[], %(created_at)s::bigint[]) AS saved (name, properties, created_at)

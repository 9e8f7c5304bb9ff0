INSERT INTO schema_version (table_id, schema_version, fields, created_at, version)
SELECT table_id, schema_version, fields::jsonb, moment(created_at), version
FROM unnest(
    %(table_id)s::uuid[], %(schema_version)s::integer[], %(fields)s::text[], %(created_at)s::bigint[],
    %(version)s::bigint[]
) AS made (table_id, schema_version, fields, created_at, version)

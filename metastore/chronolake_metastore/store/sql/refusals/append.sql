INSERT INTO refusal (
    request_id, refused_at, actor, address, command, table_name, table_id, version, instant, code, detail, context
)
SELECT
    request_id, moment(refused_at), actor, address, command, table_name, table_id, version, moment(instant), code, detail,
    context::jsonb
FROM unnest(
    %(request_id)s::text[], %(refused_at)s::bigint[], %(actor)s::text[], %(address)s::text[], %(command)s::text[],
    %(table_name)s::text[], %(table_id)s::uuid[], %(version)s::bigint[], %(instant)s::bigint[], %(code)s::text[],
    %(detail)s::text[], %(context)s::text[]
) AS refused (
    request_id, refused_at, actor, address, command, table_name, table_id, version, instant, code, detail, context
)

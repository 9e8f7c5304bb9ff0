INSERT INTO outcome (request_id, fingerprint, table_id, version, status, answer)
SELECT *
FROM unnest(
    %(request_id)s::text[], %(fingerprint)s::bytea[], %(table_id)s::uuid[], %(version)s::bigint[],
    %(status)s::smallint[], %(answer)s::bytea[]
)

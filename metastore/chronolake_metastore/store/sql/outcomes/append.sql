-- Rows are given in the order of the request ids: two groups with common request ids wait for each other, but cannot
-- deadlock.
INSERT INTO outcome (
    request_id, fingerprint, table_id, version, code, result, dialect, answer_digest, recorded_at, command, actor, address,
    chain_id, number, hash
)
SELECT
    request_id, fingerprint, table_id, version, code, result, dialect, answer_digest, moment(recorded_at), command, actor,
    address, chain_id, number, hash
FROM unnest(
    %(request_id)s::text[], %(fingerprint)s::bytea[], %(table_id)s::uuid[], %(version)s::bigint[], %(code)s::text[],
    %(result)s::bytea[], %(dialect)s::text[], %(answer_digest)s::bytea[], %(recorded_at)s::bigint[], %(command)s::text[],
    %(actor)s::text[], %(address)s::text[], %(chain_id)s::uuid[], %(number)s::bigint[], %(hash)s::bytea[]
) AS recorded (
    request_id, fingerprint, table_id, version, code, result, dialect, answer_digest, recorded_at, command, actor, address,
    chain_id, number, hash
)

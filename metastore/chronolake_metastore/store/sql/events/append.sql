-- unnest keeps the order of its arrays, and the identity column follows it: position increases with version.
INSERT INTO event (table_id, version, type, instant, time, actor, request_id, payload, previous_hash, hash, answers, answers_hash)
SELECT table_id, version, type, moment(instant), moment(time), actor, request_id, payload::jsonb, previous_hash, hash,
    answers, answers_hash
FROM unnest(
    %(table_id)s::uuid[], %(version)s::bigint[], %(type)s::text[], %(instant)s::bigint[], %(time)s::bigint[],
    %(actor)s::text[], %(request_id)s::text[], %(payload)s::text[], %(previous_hash)s::bytea[], %(hash)s::bytea[],
    %(answers)s::bigint[], %(answers_hash)s::bytea[]
) AS appended (
    table_id, version, type, instant, time, actor, request_id, payload, previous_hash, hash, answers, answers_hash
)

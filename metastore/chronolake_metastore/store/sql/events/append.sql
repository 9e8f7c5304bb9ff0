-- The calls of unnest advance together, row by row, and keep the order of their arrays. The identity column follows it:
-- position increases with version. Next to each other, events often have one payload, which is parsed once.
WITH payload AS MATERIALIZED (
    SELECT unnest(%(payload)s::text[])::json AS document, unnest(%(payload_events)s::integer[]) AS events
)
INSERT INTO event (
    table_id, version, type, instant, time, actor, request_id, payload, payload_bytes, previous_hash, hash, answers,
    answers_hash
)
SELECT
    table_id, version, type, moment(instant), moment(time), actor, request_id, payload, payload_bytes, previous_hash, hash,
    answers, answers_hash
FROM (
    SELECT
        unnest(%(table_id)s::uuid[]) AS table_id,
        unnest(%(version)s::bigint[]) AS version,
        unnest(%(type)s::text[]) AS type,
        unnest(%(instant)s::bigint[]) AS instant,
        unnest(%(time)s::bigint[]) AS time,
        unnest(%(actor)s::text[]) AS actor,
        unnest(%(request_id)s::text[]) AS request_id,
        unnest(ARRAY(SELECT document FROM payload, generate_series(1, payload.events))) AS payload,
        unnest(%(payload_bytes)s::integer[]) AS payload_bytes,
        unnest(%(previous_hash)s::bytea[]) AS previous_hash,
        unnest(%(hash)s::bytea[]) AS hash,
        unnest(%(answers)s::bigint[]) AS answers,
        unnest(%(answers_hash)s::bytea[]) AS answers_hash
) AS appended

-- One lookup by the primary key for each request id. For an array PostgreSQL would read the whole table, if it plans the
-- statement while the table is empty.
SELECT found.*
FROM unnest(%(request_ids)s::text[]) AS asked (request_id)
CROSS JOIN LATERAL (
    SELECT o.request_id, o.fingerprint, o.table_id, o.version, o.code, o.result, o.dialect, o.answer_digest,
        micros(o.recorded_at)
    FROM outcome o
    WHERE o.request_id = asked.request_id
    LIMIT 1
) AS found

-- A page of the log of all tables, in the order across tables. An open transaction may still append events with a lower
-- transaction id than committed ones. So a page ends before the oldest open transaction (xmin), and readers never skip
-- an event. A page also never splits a request: the last request on it is completed.
WITH candidate AS (
    SELECT *
    FROM event
    WHERE (event.transaction_id, event.position) > (%(transaction_id)s::text::xid8, %(position)s::bigint)
        AND event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY event.transaction_id, event.position
    LIMIT %(limit)s
),
-- The page is bounded in bytes too, by the sizes stored beside the payloads. It has at least one event.
page AS (
    SELECT *
    FROM (
        SELECT
            candidate.*,
            sum(payload_bytes + 512) OVER (ORDER BY transaction_id, position) AS bytes,
            row_number() OVER (ORDER BY transaction_id, position) AS number
        FROM candidate
    ) AS summed
    WHERE bytes <= %(bytes_max)s OR number = 1
),
whole AS (
    SELECT table_id, transaction_id, position, version, type, instant, time, actor, request_id, payload, hash FROM page
    UNION ALL
    SELECT
        event.table_id, event.transaction_id, event.position, event.version, event.type, event.instant, event.time,
        event.actor, event.request_id, event.payload, event.hash
    FROM (SELECT * FROM page ORDER BY transaction_id DESC, position DESC LIMIT 1) AS last
    JOIN event ON event.transaction_id = last.transaction_id
        AND event.position > last.position
        AND event.request_id = last.request_id
)
SELECT
    whole.transaction_id::text, whole.position, t.namespace || '.' || t.name, t.definition ->> 'tick', whole.table_id,
    whole.version, whole.type, micros(whole.instant), micros(whole.time), whole.actor, whole.request_id, whole.payload,
    encode(whole.hash, 'hex'),
    (SELECT count(*) FROM candidate) < %(limit)s AND (SELECT count(*) FROM candidate) = (SELECT count(*) FROM page)
FROM whole
LEFT JOIN lake_table t USING (table_id)
ORDER BY whole.transaction_id, whole.position

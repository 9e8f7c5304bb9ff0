-- A page of the log of one table, by version. Commands of a table run one after another, so its versions become visible
-- in order. As over all tables, a page never splits a request.
WITH candidate AS (
    SELECT *
    FROM event
    WHERE event.table_id = %(table_id)s AND event.version > %(version)s
    ORDER BY event.version
    LIMIT %(limit)s
),
-- The page is bounded in bytes too, by the sizes stored beside the payloads. It has at least one event.
page AS (
    SELECT *
    FROM (
        SELECT
            candidate.*,
            sum(payload_bytes + 512) OVER (ORDER BY version) AS bytes,
            row_number() OVER (ORDER BY version) AS number
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
    FROM (SELECT * FROM page ORDER BY version DESC LIMIT 1) AS last
    JOIN event ON event.table_id = last.table_id
        AND event.version > last.version
        AND event.transaction_id = last.transaction_id
        AND event.request_id = last.request_id
)
SELECT
    whole.transaction_id::text, whole.position, t.namespace || '.' || t.name, t.definition ->> 'tick', whole.table_id,
    whole.version, whole.type, micros(whole.instant), micros(whole.time), whole.actor, whole.request_id, whole.payload,
    encode(whole.hash, 'hex'),
    (SELECT count(*) FROM candidate) < %(limit)s AND (SELECT count(*) FROM candidate) = (SELECT count(*) FROM page)
FROM whole
JOIN lake_table t USING (table_id)
ORDER BY whole.version

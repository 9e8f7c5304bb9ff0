-- A page of the log of one table, by version: its commands take turns, so versions become visible in their order. A
-- page ends with the last event of a request, as over all tables.
WITH page AS (
    SELECT *
    FROM event
    WHERE event.table_id = :table_id AND event.version > :version
    ORDER BY event.version
    LIMIT :limit
),
whole AS (
    SELECT * FROM page
    UNION ALL
    SELECT event.*
    FROM (SELECT * FROM page ORDER BY version DESC LIMIT 1) AS last
    JOIN event ON event.table_id = last.table_id
        AND event.version > last.version
        AND event.transaction_id = last.transaction_id
        AND event.request_id = last.request_id
)
SELECT
    whole.transaction_id::text, whole.position, t.namespace || '.' || t.name, t.definition ->> 'tick', whole.table_id,
    whole.version, whole.type, micros(whole.instant), micros(whole.time), whole.actor, whole.request_id, whole.payload,
    encode(whole.hash, 'hex')
FROM whole
JOIN lake_table t USING (table_id)
ORDER BY whole.version

-- A page of the log of all tables for followers, in the order across tables. It ends before the oldest open transaction
-- (see feed/page.sql). The page is bounded in bytes: first by the stored size, which is known without reading the
-- payload, then by the size of the text. The first event is always on the page, regardless of its size.
WITH stored AS (
    SELECT page.*, sum(pg_column_size(payload)) OVER (ORDER BY transaction_id, position) - pg_column_size(payload) AS before
    FROM (
        SELECT *
        FROM event
        WHERE (event.transaction_id, event.position)
                > (%(transaction_id)s::text::xid8, %(position)s::bigint)
            AND event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY event.transaction_id, event.position
        LIMIT %(limit)s
    ) AS page
),
texts AS (
    SELECT stored.*, payload::text AS payload_text FROM stored WHERE before < %(bytes)s
),
sized AS (
    SELECT
        texts.*,
        sum(octet_length(payload_text)) OVER (ORDER BY transaction_id, position) - octet_length(payload_text)
            AS text_before
    FROM texts
)
SELECT
    sized.transaction_id::text, sized.position, t.namespace || '.' || t.name, t.definition ->> 'tick', sized.table_id,
    sized.version, sized.type, micros(sized.instant), micros(sized.time), sized.actor, sized.request_id,
    sized.payload_text, encode(sized.hash, 'hex')
FROM sized
LEFT JOIN lake_table t USING (table_id)
WHERE sized.text_before < %(bytes)s
ORDER BY sized.transaction_id, sized.position

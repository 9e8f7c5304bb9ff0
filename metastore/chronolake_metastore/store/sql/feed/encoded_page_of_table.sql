-- As feed/encoded_page.sql, for one table and by version. Commands of a table run one after another, so its versions
-- become visible in order, and no open transaction can append before them.
WITH stored AS (
    SELECT page.*, sum(pg_column_size(payload)) OVER (ORDER BY version) - pg_column_size(payload) AS before
    FROM (
        SELECT *
        FROM event
        WHERE event.table_id = %(table_id)s AND event.version > %(version)s
        ORDER BY event.version
        LIMIT %(limit)s
    ) AS page
),
texts AS (
    SELECT stored.*, payload::text AS payload_text FROM stored WHERE before < %(bytes)s
),
sized AS (
    SELECT
        texts.*, sum(octet_length(payload_text)) OVER (ORDER BY version) - octet_length(payload_text) AS text_before
    FROM texts
)
SELECT
    sized.transaction_id::text, sized.position, t.namespace || '.' || t.name, t.definition ->> 'tick', sized.table_id,
    sized.version, sized.type, micros(sized.instant), micros(sized.time), sized.actor, sized.request_id,
    sized.payload_text, encode(sized.hash, 'hex')
FROM sized
JOIN lake_table t USING (table_id)
WHERE sized.text_before < %(bytes)s
ORDER BY sized.version

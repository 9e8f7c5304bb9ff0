-- The events of a table after a version, up to a number of events and of bytes with their files, at least one event.
SELECT version, micros(time), micros(instant), type, payload::text
FROM (
    SELECT
        e.*,
        sum(
            e.payload_bytes
            + CASE WHEN e.type = 'InstantCompleted' THEN 512 * coalesce((e.payload -> 'summary' ->> 'files')::bigint, 0) ELSE 0 END
        ) OVER (ORDER BY e.version) AS bytes,
        row_number() OVER (ORDER BY e.version) AS number
    FROM (
        SELECT *
        FROM event
        WHERE table_id = %(table_id)s AND version > %(after)s
        ORDER BY version
        LIMIT %(limit)s
    ) AS e
) AS summed
WHERE bytes <= %(bytes_max)s OR number = 1
ORDER BY version

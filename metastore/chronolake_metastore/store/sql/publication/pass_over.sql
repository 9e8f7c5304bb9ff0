-- Events that publish nothing: a table that was published up to the event before one is published up to it. A row that
-- its publisher has locked stays: the publisher passes over the event itself. Publishers lock a clock after the row.
UPDATE publication p
SET published_version = locked.version, published_completion = greatest(p.published_completion, moment(locked.time))
FROM (
    SELECT p.table_id, passed.version, passed.time
    FROM unnest(%(table_id)s::uuid[], %(version)s::bigint[], %(time)s::bigint[]) AS passed (table_id, version, time)
    JOIN publication p ON p.table_id = passed.table_id AND p.published_version = passed.version - 1
    WHERE p.paused_version IS NULL
    FOR UPDATE OF p SKIP LOCKED
) AS locked
WHERE p.table_id = locked.table_id

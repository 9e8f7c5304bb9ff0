-- Delete from the replay table of files those that have left the database. It reads the replay table of instants.
DELETE FROM pg_temp.file
WHERE ctid = ANY (ARRAY(
    SELECT f.ctid
    FROM first_event b
    JOIN pg_temp.file f ON f.table_id = b.table_id AND f.superseded_at < b.files_from
    WHERE {leaves}
        AND NOT EXISTS (
            SELECT
            FROM chronolake.file found
            WHERE (found.version, found.table_id, found.ordinal, found.live_from)
                = (f.version, f.table_id, f.ordinal, f.live_from)
        )
))

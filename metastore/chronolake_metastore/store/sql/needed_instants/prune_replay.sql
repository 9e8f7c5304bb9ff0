-- Delete from the replay table of instants those that have left the database and need not be in it.
DELETE FROM pg_temp.instant
WHERE ctid = ANY (ARRAY(
    SELECT i.ctid
    FROM first_event f
    JOIN pg_temp.instant i ON i.table_id = f.table_id AND i.requested_time < f.instants_from
    WHERE NOT ({stays})
        AND NOT EXISTS (
            SELECT
            FROM chronolake.instant found
            WHERE found.table_id = i.table_id AND found.requested_time = i.requested_time
        )
))

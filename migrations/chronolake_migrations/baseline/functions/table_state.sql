-- The state of a table at a place in the order across tables; no row if the table did not exist yet. All events up to the
-- place and no later one have an effect on it: the times of a table's events are in the order of its versions. A read of the
-- table as of `as_of` shows this state. That is the last completion time. Where the database has no completion, it is `time`,
-- that of the last event, which is as exact. `is_known` is false if the events that tell the state have left the database.
CREATE FUNCTION chronolake.table_state(of_table uuid, in_transaction xid8, at_position bigint)
    RETURNS TABLE (version bigint, "time" timestamptz, as_of timestamptz, schema_version int, is_known boolean)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        at.version,
        at.time,
        CASE
            WHEN done.time IS NULL THEN at.time
            -- A later completion may be in the archive alone.
            WHEN done.time < f.instants_from THEN at.time
            ELSE done.time
        END,
        (
            SELECT max(s.schema_version)
            FROM chronolake.schema_version s
            WHERE s.table_id = of_table AND s.version <= at.version
        ),
        at.is_known
    FROM (
        SELECT
            found.version,
            e.time,
            -- The search ends at the event before the first that is here. That one may be gone, and others after it.
            f.version IS NULL
            OR found.version >= f.version
            OR coalesce((e.transaction_id, e.position) <= (in_transaction, at_position), false) AS is_known
        FROM chronolake.clock c
        CROSS JOIN LATERAL (SELECT chronolake.version_at(of_table, in_transaction, at_position)) AS found (version)
        LEFT JOIN chronolake.first_event f ON f.table_id = c.table_id
        LEFT JOIN chronolake.event e ON e.table_id = c.table_id AND e.version = found.version
        WHERE c.table_id = of_table
    ) AS at
    LEFT JOIN chronolake.first_event f ON f.table_id = of_table
    CROSS JOIN LATERAL (
        SELECT greatest(
            (
                SELECT max(i.completion_time)
                FROM chronolake.instant i
                WHERE i.table_id = of_table AND i.completion_time <= at.time
            ),
            (
                SELECT max(i.undone_completion_time)
                FROM chronolake.instant i
                WHERE i.table_id = of_table AND i.undone_completion_time <= at.time
            )
        )
    ) AS done (time)
    WHERE at.version > 0;
END;

COMMENT ON FUNCTION chronolake.table_state(uuid, xid8, bigint) IS
    'The state of a table at a place in the order across tables; no row if it did not exist yet.';

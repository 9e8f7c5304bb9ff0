-- The table services of a table whose plans a read as of some time needs: those that were pending at a time as of which the
-- table can still be read. Their lists of file groups stay in PostgreSQL when the events before and after them have left. A
-- table can be read from the last clean on, and as of the times that savepoints and readers hold.
CREATE FUNCTION chronolake.readable_plans(of_table uuid) RETURNS SETOF timestamptz
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT i.requested_time
    FROM chronolake.lake_table t
    CROSS JOIN LATERAL (
        SELECT least(
            coalesce(t.cleaned_before, '-infinity'),
            (
                SELECT min(saved.completion_time)
                FROM chronolake.instant savepoint
                JOIN chronolake.instant saved
                    ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
                WHERE savepoint.table_id = t.table_id
                    AND savepoint.action = 'savepoint'
                    AND savepoint.state = 'completed'
            ),
            (SELECT min(r.as_of) FROM chronolake.reader r WHERE r.table_id = t.table_id)
        ) AS since
    ) AS readable
    JOIN chronolake.instant i
        ON i.table_id = t.table_id
        AND i.operation IN ('compact', 'log_compact', 'cluster')
        AND (
            i.state IN ('requested', 'inflight')
            OR coalesce(i.completion_time, i.undone_completion_time, i.rolled_back_at) > readable.since
        )
    WHERE t.table_id = of_table AND t.dropped_at IS NULL;
END;

COMMENT ON FUNCTION chronolake.readable_plans(uuid) IS
    'The compactions and clusterings whose plans are needed to read the table as of a time that is not cleaned.';

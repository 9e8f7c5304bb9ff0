-- Give a partition of a table of the log its trigger and the names of its constraints and indexes: a key of outcome_1 has the
-- name outcome_1_request_unique. The triggers of a partitioned table do not apply to a statement that names a partition.
CREATE FUNCTION chronolake.finish_partition(log_table text, part text) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    ours text;
    theirs text;
BEGIN
    EXECUTE format(
        'CREATE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
        part || '_append_only', part
    );
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', part, part || '_append_only');
    -- The index of a constraint has its name.
    FOR ours, theirs IN
        SELECT of_part.relname, overlay(of_all.relname PLACING part FROM 1 FOR length(log_table))
        FROM pg_index i
        JOIN pg_class of_part ON of_part.oid = i.indexrelid
        JOIN pg_inherits h ON h.inhrelid = i.indexrelid
        JOIN pg_class of_all ON of_all.oid = h.inhparent
        WHERE i.indrelid = part::regclass
    LOOP
        IF ours <> theirs THEN
            EXECUTE format('ALTER INDEX %I RENAME TO %I', ours, theirs);
        END IF;
    END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION chronolake.finish_partition(text, text) FROM PUBLIC;

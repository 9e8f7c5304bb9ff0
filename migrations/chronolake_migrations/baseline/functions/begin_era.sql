-- Begin an era of the log: rows that are appended from now on are in partitions of their own. So the rows of earlier eras
-- can leave as whole partitions. The triggers of a partitioned table do not apply to a statement that names a partition.
CREATE FUNCTION chronolake.begin_era(new_era int) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    log_table text;
    part text;
    ours text;
    theirs text;
BEGIN
    -- As for a migration: each command locks rows of this table first, so none holds a partition, and none is lost.
    LOCK TABLE clock IN EXCLUSIVE MODE;
    -- Readers come in any order. This gives up before PostgreSQL would end one of them for a deadlock.
    SET LOCAL lock_timeout = '500ms';
    LOCK TABLE event, event_entry, write_stat, deleted_file, outcome, refusal IN ACCESS EXCLUSIVE MODE;
    INSERT INTO era (era) VALUES (new_era);
    FOREACH log_table IN ARRAY ARRAY['event', 'event_entry', 'write_stat', 'deleted_file', 'outcome', 'refusal'] LOOP
        part := format('%s_%s', log_table, new_era);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES IN (%s)', part, log_table, new_era);
        EXECUTE format(
            'CREATE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON %I '
                'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
            part || '_append_only', part
        );
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', part, part || '_append_only');
        -- A key of outcome_1 has the name outcome_1_request_unique.
        FOR ours, theirs IN
            SELECT of_part.conname, replace(of_all.conname, log_table, part)
            FROM pg_constraint of_part
            JOIN pg_constraint of_all ON of_all.oid = of_part.conparentid
            WHERE of_part.conrelid = part::regclass
        LOOP
            EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', part, ours, theirs);
        END LOOP;
        EXECUTE format('ALTER TABLE %I ALTER COLUMN era SET DEFAULT %s', log_table, new_era);
    END LOOP;
END
$$;

COMMENT ON FUNCTION chronolake.begin_era IS 'For the owner of the schema. Raises an error where the era began before.';
REVOKE EXECUTE ON FUNCTION chronolake.begin_era(int) FROM PUBLIC;

SELECT chronolake.begin_era(1);

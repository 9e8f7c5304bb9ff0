-- Begin an era of the log: rows that are appended from now on are in partitions of their own. So the rows of earlier eras
-- can leave as whole partitions.
CREATE FUNCTION chronolake.begin_era(new_era int) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    log_table text;
    part text;
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
        PERFORM add_keys(log_table, part);
        PERFORM finish_partition(log_table, part);
        EXECUTE format('ALTER TABLE %I ALTER COLUMN era SET DEFAULT %s', log_table, new_era);
    END LOOP;
END
$$;

COMMENT ON FUNCTION chronolake.begin_era IS 'For the owner of the schema. Raises an error where the era began before.';
REVOKE EXECUTE ON FUNCTION chronolake.begin_era(int) FROM PUBLIC;

SELECT chronolake.begin_era(1);

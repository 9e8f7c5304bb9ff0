-- Events leave in steps, because a transaction that began before may still read them. First prepare_thinning makes empty
-- tables, into which the command copies the rows that the state still needs. Then announce_thinning moves the border: readers
-- that begin later ask the archive. When all transactions from before have ended, thin_eras puts the copies in the place of
-- the partitions. A command that is killed leaves the one or the other, and the next one begins again.
CREATE FUNCTION chronolake.prepare_thinning(last_era int) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    log_table text;
    part text;
BEGIN
    FOREACH log_table IN ARRAY ARRAY['event', 'event_entry', 'write_stat', 'deleted_file'] LOOP
        part := log_table || '_needed';
        EXECUTE format('DROP TABLE IF EXISTS %I', part);
        IF last_era IS NOT NULL THEN
            EXECUTE format(
                'CREATE TABLE %I (LIKE %I INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING STORAGE)',
                part, log_table
            );
            PERFORM add_keys(log_table, part);
            -- It spares the scan of the rows when the table is attached.
            EXECUTE format('ALTER TABLE %I ADD CONSTRAINT era_is_last CHECK (era = %s)', part, last_era);
        END IF;
    END LOOP;
END
$$;

-- For each given table, rows before a version may leave from some eras that follow each other.
CREATE FUNCTION chronolake.announce_thinning(first_era int, last_era int, table_ids uuid[], versions bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
BEGIN
    -- Whoever drops answers proves and records before that an archive has the era.
    IF first_era > last_era
        OR last_era >= (SELECT max(e.era) FROM era e)
        OR EXISTS (SELECT FROM era e WHERE e.era BETWEEN first_era AND last_era AND e.answers_dropped_at IS NULL)
    THEN
        RAISE EXCEPTION 'the answers of eras % to % have not left', first_era, last_era USING ERRCODE = 'restrict_violation';
    END IF;
    UPDATE first_event SET version = dropped_before WHERE version > dropped_before; -- of a command that was killed
    INSERT INTO first_event (table_id, version, dropped_before)
    SELECT
        given.table_id,
        -- All rows of later eras stay.
        least(
            given.version,
            (SELECT e.version FROM event e WHERE e.table_id = given.table_id AND e.era > last_era ORDER BY e.version LIMIT 1)
        ),
        1
    FROM unnest(table_ids, versions) AS given (table_id, version)
    ON CONFLICT ON CONSTRAINT first_event_table_unique DO UPDATE
    SET version = greatest(first_event.dropped_before, excluded.version);
    UPDATE era e SET events_left_at = now() WHERE e.era BETWEEN first_era AND last_era AND e.events_left_at IS NULL;
END
$$;

CREATE FUNCTION chronolake.thin_eras(first_era int, last_era int) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    log_table text;
    part text;
    key text;
    present int;
BEGIN
    LOCK TABLE clock IN EXCLUSIVE MODE;
    SET LOCAL lock_timeout = '500ms'; -- as in begin_era
    LOCK TABLE event, event_entry, write_stat, deleted_file IN ACCESS EXCLUSIVE MODE;
    SELECT max(e.era) INTO present FROM era e;
    IF first_era > last_era
        OR last_era >= present
        OR EXISTS (SELECT FROM era e WHERE e.era BETWEEN first_era AND last_era AND e.events_left_at IS NULL)
    THEN
        RAISE EXCEPTION 'eras % to % are not announced', first_era, last_era USING ERRCODE = 'restrict_violation';
    END IF;
    FOREACH log_table IN ARRAY ARRAY['event', 'event_entry', 'write_stat', 'deleted_file'] LOOP
        FOR part IN
            SELECT c.relname
            FROM generate_series(first_era, last_era) AS old (era)
            JOIN pg_class c ON c.oid = to_regclass(format('%s_%s', log_table, old.era))
        LOOP
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', log_table, part);
            EXECUTE format('DROP TABLE %I', part);
        END LOOP;
        part := format('%s_%s', log_table, last_era);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', log_table || '_needed', part);
        FOR key IN SELECT c.conname FROM pg_constraint c WHERE c.conrelid = part::regclass AND c.contype IN ('p', 'u') LOOP
            EXECUTE format(
                'ALTER TABLE %I RENAME CONSTRAINT %I TO %I', part, key, replace(key, log_table || '_needed', part)
            );
        END LOOP;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', log_table, part, last_era);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT era_is_last', part);
        PERFORM finish_partition(log_table, part);
        -- An era may have begun since the table was made.
        EXECUTE format('ALTER TABLE %I ALTER COLUMN era SET DEFAULT %s', log_table, present);
    END LOOP;
    UPDATE first_event SET dropped_before = version WHERE version > dropped_before;
END
$$;

COMMENT ON FUNCTION chronolake.prepare_thinning IS 'For the owner of the schema; null drops what is left over.';
COMMENT ON FUNCTION chronolake.announce_thinning IS 'For the owner of the schema, after the archive has proved that it has these eras.';
COMMENT ON FUNCTION chronolake.thin_eras IS 'For the owner of the schema, after the transactions from before the announcement have ended.';
REVOKE EXECUTE ON FUNCTION chronolake.prepare_thinning(int) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION chronolake.announce_thinning(int, int, uuid[], bigint[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION chronolake.thin_eras(int, int) FROM PUBLIC;

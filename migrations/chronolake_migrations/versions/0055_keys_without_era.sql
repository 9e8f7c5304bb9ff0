-- The keys of the log without the era, which is one and the same in a partition: a key of a partitioned table must have it,
-- one of a partition need not. No key ever held across eras.
ALTER TABLE chronolake.event DROP CONSTRAINT event_order, DROP CONSTRAINT event_version_unique;
ALTER TABLE chronolake.event_entry DROP CONSTRAINT event_entry_order;
ALTER TABLE chronolake.write_stat DROP CONSTRAINT write_stat_order;
ALTER TABLE chronolake.deleted_file DROP CONSTRAINT deleted_file_order;
ALTER TABLE chronolake.outcome DROP CONSTRAINT outcome_request_unique, DROP CONSTRAINT outcome_chain_unique;
ALTER TABLE chronolake.refusal DROP CONSTRAINT refusal_request_unique;

CREATE FUNCTION chronolake.add_keys(log_table text, part text) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    name text;
    kind text;
    columns text;
BEGIN
    FOR name, kind, columns IN
        SELECT k.name, k.kind, k.columns
        FROM (
            VALUES
                -- The order across tables: position alone is not the order of commits.
                ('event', 'order', 'PRIMARY KEY', 'transaction_id, position'),
                ('event', 'version_unique', 'UNIQUE', 'table_id, version'),
                ('event_entry', 'order', 'PRIMARY KEY', 'table_id, instant, list, ordinal'),
                ('write_stat', 'order', 'PRIMARY KEY', 'table_id, version, ordinal'),
                -- It does not begin with table_id, so that the planner uses deleted_file_of_instant for queries by instant.
                ('deleted_file', 'order', 'PRIMARY KEY', 'version, table_id, ordinal'),
                ('outcome', 'request_unique', 'PRIMARY KEY', 'request_id'),
                ('outcome', 'chain_unique', 'UNIQUE', 'chain_id, number'),
                ('refusal', 'request_unique', 'PRIMARY KEY', 'request_id')
        ) AS k (of_table, name, kind, columns)
        WHERE k.of_table = log_table
    LOOP
        EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I %s (%s)', part, part || '_' || name, kind, columns);
    END LOOP;
END
$$;

COMMENT ON FUNCTION chronolake.add_keys IS 'Add the keys of a table of the log to one of its partitions.';
REVOKE EXECUTE ON FUNCTION chronolake.add_keys(text, text) FROM PUBLIC;

SELECT chronolake.add_keys(of_all.relname, part.relname)
FROM pg_inherits i
JOIN pg_class part ON part.oid = i.inhrelid AND part.relkind = 'r'
JOIN pg_class of_all ON of_all.oid = i.inhparent AND of_all.relnamespace = 'chronolake'::regnamespace;

CREATE OR REPLACE FUNCTION chronolake.begin_era(new_era int) RETURNS void
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

CREATE OR REPLACE FUNCTION chronolake.prepare_thinning(last_era int) RETURNS void
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

CREATE OR REPLACE FUNCTION chronolake.thin_eras(first_era int, last_era int) RETURNS void
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

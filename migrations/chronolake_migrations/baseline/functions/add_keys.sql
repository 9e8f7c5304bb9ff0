-- The keys of the log are of its partitions, without the era, which is one and the same in a partition: a key of the partitioned
-- table must have it.
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

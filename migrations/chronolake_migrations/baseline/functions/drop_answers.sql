-- Drop the answers of an era: outcomes and refusals. The last outcome of each chain moves to the next era, and leaves with it
-- when the chain went on. So PostgreSQL has the end of each chain, no gap within it, and the outcome at which the archive ended.
-- The query goes from chain to chain by the index.
CREATE FUNCTION chronolake.drop_answers(dropped int) RETURNS void
    LANGUAGE plpgsql SET search_path = chronolake AS $$
DECLARE
    columns text;
    log_table text;
    moved text[];
BEGIN
    LOCK TABLE clock IN EXCLUSIVE MODE;
    SET LOCAL lock_timeout = '500ms'; -- as in begin_era
    LOCK TABLE outcome, refusal IN ACCESS EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT FROM archived_era a WHERE a.era = dropped) THEN
        RAISE EXCEPTION 'era % is not archived', dropped USING ERRCODE = 'restrict_violation';
    END IF;
    IF dropped <> (SELECT min(e.era) FROM era e WHERE e.answers_dropped_at IS NULL)
        OR NOT EXISTS (SELECT FROM era e WHERE e.era > dropped)
    THEN
        RAISE EXCEPTION 'era % is not the first one that has ended', dropped USING ERRCODE = 'restrict_violation';
    END IF;
    WITH RECURSIVE chains AS (
        (SELECT o.chain_id FROM outcome o WHERE o.era = dropped ORDER BY o.chain_id LIMIT 1)
        UNION ALL
        SELECT (
            SELECT o.chain_id FROM outcome o WHERE o.era = dropped AND o.chain_id > chains.chain_id ORDER BY o.chain_id LIMIT 1
        )
        FROM chains
        WHERE chains.chain_id IS NOT NULL
    )
    SELECT array_agg(last.request_id) INTO moved
    FROM chains
    CROSS JOIN LATERAL (
        SELECT o.request_id
        FROM outcome o
        WHERE o.era = dropped AND o.chain_id = chains.chain_id
        ORDER BY o.number DESC
        LIMIT 1
    ) AS last;
    FOREACH log_table IN ARRAY ARRAY['outcome', 'refusal'] LOOP
        SELECT string_agg(quote_ident(attname), ', ') INTO columns
        FROM pg_attribute
        WHERE attrelid = log_table::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'era';
        EXECUTE format(
            'INSERT INTO %I (era, %s) SELECT %s, %s FROM %I WHERE request_id = ANY ($1)',
            log_table, columns, dropped + 1, columns, format('%s_%s', log_table, dropped)
        ) USING moved;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', log_table, format('%s_%s', log_table, dropped));
        EXECUTE format('DROP TABLE %I', format('%s_%s', log_table, dropped));
    END LOOP;
    UPDATE era e SET answers_dropped_at = now() WHERE e.era = dropped;
END
$$;

COMMENT ON FUNCTION chronolake.drop_answers IS 'For the owner of the schema, after the archive has proved that it has them.';
REVOKE EXECUTE ON FUNCTION chronolake.drop_answers(int) FROM PUBLIC;

-- What auditors of namespaces read (docs/decisions/0103-auditors-of-namespaces.md): the views of auditors, restricted to the
-- tables of their namespaces, in a schema of its own. This file runs at each migration: a dump of the schema chronolake lacks
-- that schema. A view is made where it is missing or where its original has got columns: otherwise running queries of auditors
-- would hold a migration up. A revision that changes more than that drops the views first.

DO $$
DECLARE
    -- These show a table under the name of that time, and not under the present one.
    of_then text[] := ARRAY['audit_conflicts', 'audit_denials', 'audit_tables', 'refusal'];
    source record;
BEGIN
    -- IF NOT EXISTS would need the right to create a schema even where there is one.
    IF to_regnamespace('chronolake_namespace_audit') IS NULL THEN
        CREATE SCHEMA chronolake_namespace_audit;
        COMMENT ON SCHEMA chronolake_namespace_audit IS 'The views of auditors of namespaces.';
    END IF;

    FOR source IN
        SELECT
            c.relname AS name,
            array_agg(a.attname ORDER BY a.attnum) AS columns,
            bool_or(a.attname = 'version') AS has_version,
            string_agg(
                CASE
                    WHEN a.attname = 'table_id' THEN 's.table_id'
                    WHEN a.attname = 'table_name' AND c.relname <> ALL (of_then) THEN 's.table_name'
                    -- Otherwise a renaming would show when the table is changed next, in another namespace.
                    WHEN a.attname = 'changed_again_at'
                        THEN 'CASE WHEN s.until_version = v.version THEN NULL ELSE v.changed_again_at END AS changed_again_at'
                    ELSE format('v.%I', a.attname)
                END,
                ', ' ORDER BY a.attnum
            ) AS targets
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'chronolake'::regnamespace
            AND c.relname IN (
                'audit_commands', 'audit_conflicts', 'audit_credentials', 'audit_deletions', 'audit_denials', 'audit_files',
                'audit_history', 'audit_markers', 'audit_pending', 'audit_rollbacks', 'audit_schemas', 'audit_services',
                'audit_streams', 'audit_tables', 'refusal'
            )
        GROUP BY c.relname
    LOOP
        CONTINUE WHEN source.columns = (
            SELECT array_agg(a.attname ORDER BY a.attnum)
            FROM pg_attribute a
            WHERE a.attrelid = to_regclass('chronolake_namespace_audit.' || quote_ident(source.name)) AND a.attnum > 0
        );
        -- OFFSET 0 is a fence: no condition of a query is evaluated on a row of another namespace. A security barrier alone lets
        -- conditions with leakproof operators pass, and EXPLAIN ANALYZE would then count the rows of others that fulfil them.
        -- A condition on table_id, or on the present table_name, chooses the tables that are read.
        EXECUTE format(
            'CREATE OR REPLACE VIEW chronolake_namespace_audit.%1$I WITH (security_barrier) AS '
            'SELECT %2$s '
            'FROM (SELECT * FROM chronolake.audited_table WHERE %3$s OFFSET 0) AS s '
            'CROSS JOIN LATERAL (SELECT * FROM chronolake.%1$I v WHERE %4$s OFFSET 0) AS v%5$s',
            source.name,
            source.targets,
            CASE WHEN source.has_version THEN 'true' ELSE 'until_version IS NULL' END,
            concat_ws(
                ' AND ',
                'v.table_id = s.table_id',
                CASE WHEN source.has_version THEN '(s.until_version IS NULL OR v.version <= s.until_version)' END,
                -- The index of outcomes begins with the chain, which is the table.
                CASE
                    WHEN source.name = 'audit_commands'
                        THEN 'v.request_id IN (SELECT o.request_id FROM chronolake.outcome o WHERE o.chain_id = s.table_id)'
                END
            ),
            -- A denial has no table if the caller could not know whether there is one.
            CASE
                WHEN source.name = 'audit_denials'
                    THEN ' UNION ALL SELECT v.* FROM ('
                        'SELECT * FROM chronolake.audit_denials v '
                        'WHERE v.table_id IS NULL '
                        'AND split_part(v.table_name, ''.'', 1) IN (SELECT namespace FROM chronolake.audited_namespace) '
                        'OFFSET 0) AS v'
                ELSE ''
            END
        );
    END LOOP;

    -- These two functions run as their owner, are never inlined, and return the tables of the login alone.
    FOR source IN
        SELECT
            p.proname AS name,
            pg_get_function_arguments(p.oid) AS arguments,
            pg_get_function_result(p.oid) AS result,
            format('%I', p.proargnames[1]) AS argument
        FROM pg_proc p
        WHERE p.pronamespace = 'chronolake'::regnamespace AND p.proname IN ('state_at', 'tables_as_of')
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION chronolake_namespace_audit.%1$I(%2$s) RETURNS %3$s '
            'LANGUAGE sql STABLE SECURITY DEFINER '
            'BEGIN ATOMIC '
            '    SELECT v.* FROM chronolake.%1$I(%4$s) v '
            '    WHERE v.table_id IN (SELECT table_id FROM chronolake.audited_table WHERE until_version IS NULL); '
            'END',
            source.name,
            source.arguments,
            source.result,
            source.argument
        );
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION chronolake_namespace_audit.instant_time(moment timestamptz, tick_us bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN chronolake.instant_time(moment, tick_us);
CREATE OR REPLACE FUNCTION chronolake_namespace_audit.moment_of(digits text) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN chronolake.moment_of(digits);

-- The comments of the originals.
DO $$
DECLARE
    commented record;
BEGIN
    FOR commented IN
        SELECT 'VIEW' AS kind, format('%I', ours.relname) AS name, obj_description(theirs.oid, 'pg_class') AS comment
        FROM pg_class ours
        JOIN pg_class theirs ON theirs.relname = ours.relname AND theirs.relnamespace = 'chronolake'::regnamespace
        WHERE ours.relnamespace = 'chronolake_namespace_audit'::regnamespace AND ours.relkind = 'v'
        UNION ALL
        SELECT 'COLUMN', format('%I.%I', ours.relname, a.attname), col_description(theirs.oid, a.attnum)
        FROM pg_class ours
        JOIN pg_class theirs ON theirs.relname = ours.relname AND theirs.relnamespace = 'chronolake'::regnamespace
        JOIN pg_attribute a ON a.attrelid = theirs.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE ours.relnamespace = 'chronolake_namespace_audit'::regnamespace AND ours.relkind = 'v'
    LOOP
        EXECUTE format('COMMENT ON %s chronolake_namespace_audit.%s IS %L', commented.kind, commented.name, commented.comment);
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA chronolake_namespace_audit TO chronolake_namespace_auditor;
GRANT SELECT ON ALL TABLES IN SCHEMA chronolake_namespace_audit TO chronolake_namespace_auditor;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA chronolake_namespace_audit FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA chronolake_namespace_audit TO chronolake_namespace_auditor;
-- Functions in a view run with the rights of its reader, and this clock is read by two of them. There is no right to use the
-- schema chronolake, so nothing in it can be named.
GRANT SELECT ON chronolake.steady_clock TO chronolake_namespace_auditor;

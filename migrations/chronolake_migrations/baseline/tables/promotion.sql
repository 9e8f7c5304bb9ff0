-- The identity of a metastore follows its PostgreSQL through a failover (docs/decisions/0069-copies.md).
CREATE TABLE chronolake.promotion (
    metastore_id uuid             NOT NULL,
    database     text COLLATE "C" NOT NULL DEFAULT chronolake.this_database(),
    promoted_at  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT promotion_unique PRIMARY KEY (metastore_id, database),
    CONSTRAINT promotion_metastore_known FOREIGN KEY (metastore_id) REFERENCES chronolake.metastore (metastore_id)
);

COMMENT ON TABLE chronolake.promotion IS
    'Timelines of the WAL to which a running server followed its database: it acts for the metastore there too. Append-only.';
COMMENT ON COLUMN chronolake.promotion.database IS
    'System identifier, database and table, WAL timeline, as in metastore.';

CREATE TRIGGER promotion_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.promotion
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.promotion ENABLE ALWAYS TRIGGER promotion_append_only;

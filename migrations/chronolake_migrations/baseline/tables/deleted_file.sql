-- Files that were reported deleted (docs/decisions/0016-markers.md).
CREATE TABLE chronolake.deleted_file (
    table_id       uuid             NOT NULL,
    version        bigint           NOT NULL,
    ordinal        int              NOT NULL,
    era            int              NOT NULL,
    requested_time timestamptz      NOT NULL,
    partition_path text COLLATE "C" NOT NULL,
    file_name      text COLLATE "C" NOT NULL
) PARTITION BY LIST (era);

CREATE INDEX deleted_file_of_instant ON chronolake.deleted_file
    (table_id, requested_time, partition_path, file_name);

COMMENT ON TABLE chronolake.deleted_file IS
    'The files that were reported deleted from storage, each with the version of its FilesDeleted event. Append-only.';
COMMENT ON COLUMN chronolake.deleted_file.requested_time IS
    'The instant that had marked the file, or the clean that deleted it.';

CREATE TRIGGER deleted_file_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.deleted_file
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.deleted_file ENABLE ALWAYS TRIGGER deleted_file_append_only;

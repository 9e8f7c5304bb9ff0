-- Markers: the names of the data files that pending instants may have in storage (docs/decisions/0016).
--
-- Expand: servers of the release before know nothing of them.

CREATE TABLE chronolake.marker (
    table_id       uuid        NOT NULL,
    requested_time timestamptz NOT NULL,
    partition_path text        NOT NULL,
    file_name      text        NOT NULL,
    kind           text        NOT NULL,
    file_id        text,
    created_at     timestamptz NOT NULL,
    CONSTRAINT marker_name_unique PRIMARY KEY (table_id, requested_time, partition_path, file_name, kind),
    CONSTRAINT marker_kind CHECK (kind IN ('CREATE', 'MERGE', 'APPEND'))
);

-- For early conflict detection: who has markers in a file group. Of other tables it has no rows, and costs nothing.
CREATE INDEX marker_group ON chronolake.marker (table_id, partition_path, file_id, requested_time)
    WHERE file_id IS NOT NULL;

COMMENT ON TABLE chronolake.marker IS
    'The data files that each instant may have written: neither log nor projection, deleted when they are dealt with.';
COMMENT ON COLUMN chronolake.marker.file_id IS
    'The file group, in tables with early conflict detection; null in others.';
COMMENT ON COLUMN chronolake.marker.created_at IS 'The wall clock of the database.';

GRANT SELECT, INSERT, DELETE ON chronolake.marker TO chronolake_server;

CREATE VIEW chronolake.audit_markers AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    m.table_id,
    m.requested_time,
    chronolake.instant_time(m.requested_time, c.tick_us) AS requested_digits,
    i.state,
    i.writer,
    m.partition_path,
    m.file_name,
    m.kind,
    m.created_at
FROM chronolake.marker m
JOIN chronolake.lake_table t ON t.table_id = m.table_id
JOIN chronolake.clock c ON c.table_id = m.table_id
LEFT JOIN chronolake.instant i ON i.table_id = m.table_id AND i.requested_time = m.requested_time;

COMMENT ON VIEW chronolake.audit_markers IS
    'The data files that each instant may have in storage, as far as they have not been dealt with.';

GRANT SELECT ON chronolake.audit_markers TO chronolake_auditor;

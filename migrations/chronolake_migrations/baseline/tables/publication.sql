-- The publication of tables for Hudi's readers (docs/decisions/0041-publication.md). Neither log nor projection.
CREATE TABLE chronolake.publication (
    table_id             uuid             NOT NULL,
    published_version    bigint           NOT NULL DEFAULT 0,
    published_completion timestamptz      NOT NULL,
    published_at         timestamptz,
    hidden_until         bigint,
    epoch                bigint           NOT NULL DEFAULT 0,
    publisher            text COLLATE "C",
    lease_expires_at     timestamptz,
    paused_version       bigint,
    paused_reason        text COLLATE "C",
    paused_since         timestamptz,
    failure              text COLLATE "C",
    foreign_files        jsonb            NOT NULL DEFAULT '[]',
    checked_at           timestamptz,
    check_position       jsonb            NOT NULL DEFAULT '{}',
    hidden_at            timestamptz,
    history              jsonb,
    CONSTRAINT publication_table_unique PRIMARY KEY (table_id),
    CONSTRAINT publication_version_positive CHECK (published_version >= 0),
    CONSTRAINT publication_pause_has_reason CHECK ((paused_version IS NULL) = (paused_reason IS NULL))
) WITH (fillfactor = 50); -- updated by every report of a publisher

COMMENT ON TABLE chronolake.publication IS
    'How far .hoodie of each table follows its log, and who publishes it: neither log nor projection.';
COMMENT ON COLUMN chronolake.publication.published_version IS
    'The version of the last event of the table that is published; it moves forwards only.';
COMMENT ON COLUMN chronolake.publication.published_completion IS
    'The time of that event: cleans keep what was live then or later.';
COMMENT ON COLUMN chronolake.publication.hidden_until IS
    'The first version that readers may see; up to it, hoodie.properties is not there. Null once it was published.';
COMMENT ON COLUMN chronolake.publication.epoch IS 'Counts the publishers. A report with an earlier epoch is refused.';
COMMENT ON COLUMN chronolake.publication.paused_version IS
    'The first version that Hudi''s readers cannot read: publication waits before it. Null while it does not wait.';
COMMENT ON COLUMN chronolake.publication.failure IS 'Why the last try of the server failed; null once one succeeded.';
COMMENT ON COLUMN chronolake.publication.foreign_files IS
    'The first files in .hoodie that no publisher wrote, as they were found at checked_at.';
COMMENT ON COLUMN chronolake.publication.check_position IS
    'Where the next check of .hoodie begins: it compares a part of the files each time.';
COMMENT ON COLUMN chronolake.publication.hidden_at IS
    'Since when hoodie.properties is not there, because publication is off. Null: Hudi''s readers may see the table.';
COMMENT ON COLUMN chronolake.publication.history IS
    'Where the published active timeline begins, and the files of the history before it; null before the first look.';

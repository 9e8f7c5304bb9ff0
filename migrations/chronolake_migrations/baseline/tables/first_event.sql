-- Older events of a table may be in the archive alone. A table without a row has all of its events and instants here.
CREATE TABLE chronolake.first_event (
    table_id                uuid   NOT NULL,
    version                 bigint NOT NULL,
    dropped_before          bigint NOT NULL DEFAULT 1,
    instants_from           timestamptz,
    instants_dropped_before timestamptz,
    files_from              timestamptz,
    CONSTRAINT first_event_table_unique PRIMARY KEY (table_id),
    CONSTRAINT first_event_is_announced CHECK (version >= dropped_before),
    CONSTRAINT first_event_instants_are_announced CHECK (
        instants_dropped_before IS NULL OR coalesce(instants_from >= instants_dropped_before, false)
    ),
    CONSTRAINT first_event_files_are_announced CHECK (
        files_from IS NULL OR coalesce(instants_from >= files_from, false)
    )
);

COMMENT ON TABLE chronolake.first_event IS
    'The version from which on readers may rely on all events of a table. It rises before events are dropped, up to dropped_before. So does instants_from, the requested time from which on they may rely on all instants; older ones are in the archive.';
COMMENT ON COLUMN chronolake.first_event.instants_from IS
    'Null while all instants are here. Rows before this time that stayed are not the timeline: the archive has it.';
COMMENT ON COLUMN chronolake.first_event.files_from IS
    'Rows of files that cleans before this time have deleted may have left; null if none have. Those of a table with streams stay, so it may be before instants_from.';

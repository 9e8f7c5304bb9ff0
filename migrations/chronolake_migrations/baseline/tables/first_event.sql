-- Older events of a table may be in the archive alone. A table without a row has all of its events here.
CREATE TABLE chronolake.first_event (
    table_id       uuid   NOT NULL,
    version        bigint NOT NULL,
    dropped_before bigint NOT NULL DEFAULT 1,
    CONSTRAINT first_event_table_unique PRIMARY KEY (table_id),
    CONSTRAINT first_event_is_announced CHECK (version >= dropped_before)
);

COMMENT ON TABLE chronolake.first_event IS
    'The version from which on readers may rely on all events of a table. It rises before events are dropped, up to dropped_before.';

-- Older events of a table may be in the archive alone. A table without a row has all of its events here.
CREATE TABLE chronolake.first_event (
    table_id uuid   NOT NULL,
    version  bigint NOT NULL,
    CONSTRAINT first_event_table_unique PRIMARY KEY (table_id)
);

COMMENT ON TABLE chronolake.first_event IS
    'The version from which on the database has all events of a table; thin_era writes it.';

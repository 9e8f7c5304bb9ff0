-- One row per table, and one for the catalog: the row that a command locks, and the head of the table's log.
CREATE TABLE chronolake.clock (
    table_id  uuid        NOT NULL,
    tick_us   bigint      NOT NULL,
    last_time timestamptz NOT NULL,
    version   bigint      NOT NULL,
    hash      bytea       NOT NULL,
    CONSTRAINT clock_table_unique PRIMARY KEY (table_id),
    CONSTRAINT clock_tick CHECK (tick_us IN (1, 1000))
) WITH (fillfactor = 50); -- updated by every group of commands: room for the next row version on the same page

COMMENT ON TABLE chronolake.clock IS 'The last time and version issued to each table; locked by each command.';

INSERT INTO chronolake.clock (table_id, tick_us, last_time, version, hash)
VALUES ('00000000-0000-0000-0000-000000000000', 1000, 'epoch', 0, '');

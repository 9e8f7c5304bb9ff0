-- The buffers of streams (docs/decisions/0058-streams.md).
CREATE TABLE chronolake.stream_checkpoint (
    table_id       uuid             NOT NULL,
    stream         text COLLATE "C" NOT NULL,
    checkpoint     bigint           NOT NULL,
    requested_time timestamptz      NOT NULL,
    epoch          bigint           NOT NULL,
    is_blocking    boolean          NOT NULL,
    tasks          jsonb            NOT NULL,
    -- Servers look for silent streams every few seconds, and many streams may wait for their job for days. The column
    -- tells both apart without a look at the reports.
    is_reported    boolean          NOT NULL DEFAULT false,
    -- So the totals over all streams read no JSON. A file may have up to 2^62 bytes, as writers report them, so a sum of
    -- two may have more than 64 bits.
    size_bytes     numeric          NOT NULL DEFAULT 0,
    CONSTRAINT stream_checkpoint_unique PRIMARY KEY (table_id, stream, checkpoint),
    -- One instant has the files of one checkpoint.
    CONSTRAINT stream_checkpoint_instant_unique UNIQUE (table_id, requested_time)
) WITH (fillfactor = 50); -- updated by every report of a task

CREATE INDEX stream_checkpoint_unreported ON chronolake.stream_checkpoint (table_id, stream) WHERE NOT is_reported;

COMMENT ON TABLE chronolake.stream_checkpoint IS
    'The buffers of streams: checkpoints with a pending instant, and what their tasks have reported.';
COMMENT ON COLUMN chronolake.stream_checkpoint.tasks IS
    'By task: the versions that staged its files, their totals, and whether it has reported its last batch.';
COMMENT ON COLUMN chronolake.stream_checkpoint.is_reported IS
    'Whether tasks have reported and all of them their last batch, so that a later checkpoint may be complete.';
COMMENT ON COLUMN chronolake.stream_checkpoint.size_bytes IS 'The bytes of the reported files.';

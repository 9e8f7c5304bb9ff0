-- The log is stored in partitions, one era after the other (docs/decisions/0087-eras.md). The last era is the present one.
CREATE TABLE chronolake.era (
    era                int         NOT NULL,
    began_in           xid8        NOT NULL DEFAULT pg_current_xact_id(),
    began_at           timestamptz NOT NULL DEFAULT now(),
    answers_dropped_at timestamptz,
    events_left_at     timestamptz,
    CONSTRAINT era_unique PRIMARY KEY (era)
);

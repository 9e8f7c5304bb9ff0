-- Completion times are looked up by the thousand: from the index alone. An instant that is not completed needs no
-- place among the completion times.
--
-- Both indexes are built anew while commands wait: a few seconds for a million instants.

ALTER TABLE chronolake.instant
    DROP CONSTRAINT instant_requested_unique,
    DROP CONSTRAINT instant_completion_unique,
    ADD CONSTRAINT instant_requested_unique PRIMARY KEY (table_id, requested_time) INCLUDE (completion_time);

CREATE UNIQUE INDEX instant_completion_unique ON chronolake.instant (table_id, completion_time)
    WHERE completion_time IS NOT NULL;

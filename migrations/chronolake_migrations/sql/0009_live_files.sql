-- The live files of a file group, oldest first. The order is what makes the planner take this index, also while it
-- knows nothing of the table yet: the index of the primary key begins with the same columns and costs it as much, but
-- goes through all that the group ever had.
--
-- It is built anew while commands wait: a few seconds for a million live files.

DROP INDEX chronolake.file_live;

CREATE INDEX file_live ON chronolake.file (table_id, partition_path, file_id, completion_time)
    WHERE superseded_at IS NULL;

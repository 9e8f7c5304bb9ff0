-- On a new table without statistics, PostgreSQL may take the index on live_from for a query that names a file group, and
-- then read all files of the table. Only a query that states the condition, which is always true, can take this one.
DROP INDEX chronolake.file_live_from;
CREATE INDEX file_live_from ON chronolake.file (table_id, live_from) WHERE live_from >= completion_time;

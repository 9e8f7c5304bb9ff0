-- The role of the servers may change the rows of the clocks and of the heads, but not lock these tables against
-- everybody: LOCK TABLE beyond ROW EXCLUSIVE asks for a right to the table, and the rights to columns do not count.
-- SELECT ... FOR UPDATE is content with them. Nobody but rebuild deletes these rows; it runs as the schema's owner.

REVOKE UPDATE, DELETE ON chronolake.clock, chronolake.answer_chain, chronolake.wall_clock FROM chronolake_server;
GRANT UPDATE (last_time, version, hash) ON chronolake.clock TO chronolake_server;
GRANT UPDATE (number, hash) ON chronolake.answer_chain TO chronolake_server;
GRANT UPDATE (told) ON chronolake.wall_clock TO chronolake_server;

-- A job that continues behind files that were rolled back would lose them without a word.
ALTER TABLE chronolake.stream ADD lost bigint;

COMMENT ON COLUMN chronolake.stream.lost IS
    'The first checkpoint that was rolled back since the stream was opened, because its writer was silent too long.';

-- Readers that follow the changes of a table need the files of their time and of all later ones.
ALTER TABLE chronolake.reader ADD follows boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN chronolake.reader.follows IS
    'Whether cleans keep the files of all later times too, for a reader that follows the changes.';

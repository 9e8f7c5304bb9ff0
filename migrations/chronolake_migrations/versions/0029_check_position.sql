ALTER TABLE chronolake.publication ADD check_position jsonb NOT NULL DEFAULT '{}';

COMMENT ON COLUMN chronolake.publication.check_position IS
    'Where the next check of .hoodie begins: it compares a part of the files each time.';

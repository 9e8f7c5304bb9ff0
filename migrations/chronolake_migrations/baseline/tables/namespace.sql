CREATE TABLE chronolake.namespace (
    name       text COLLATE "C" NOT NULL,
    properties jsonb            NOT NULL,
    created_at timestamptz      NOT NULL,
    CONSTRAINT namespace_name_unique PRIMARY KEY (name)
);

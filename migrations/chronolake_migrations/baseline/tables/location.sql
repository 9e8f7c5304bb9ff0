-- The locations of namespaces (docs/decisions/0099-locations.md). A row stays when its location is revoked: a namespace
-- with rows has a list of its own, even if that allows nothing.
CREATE TABLE chronolake.location (
    namespace  text COLLATE "C" NOT NULL,
    location   text COLLATE "C" NOT NULL,
    is_allowed boolean          NOT NULL,
    version    bigint           NOT NULL,
    CONSTRAINT location_unique PRIMARY KEY (namespace, location)
);

CREATE TABLE chronolake.archived_era (
    era             int                NOT NULL,
    version         bigint             NOT NULL,
    archived_before bigint             NOT NULL,
    location        text COLLATE "C"   NOT NULL,
    runs            text[] COLLATE "C" NOT NULL,
    CONSTRAINT archived_era_unique PRIMARY KEY (era)
);

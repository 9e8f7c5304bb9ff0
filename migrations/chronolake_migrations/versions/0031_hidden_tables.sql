ALTER TABLE chronolake.publication ADD hidden_at timestamptz;

COMMENT ON COLUMN chronolake.publication.hidden_at IS
    'Since when hoodie.properties is not there, because publication is off. Null: Hudi''s readers may see the table.';

-- The trigger function of the append-only tables.
CREATE FUNCTION chronolake.refuse_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of chronolake.% is refused: the log is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Undo by appending: roll the instant back, or restore the table.';
END
$$;

-- The trigger function of events that only the owner of the schema records. Without a search_path of its own, a temporary table
-- pg_namespace of a server would say who the owner is.
CREATE FUNCTION chronolake.refuse_unless_owner() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = 'chronolake'), 'USAGE') THEN
        RAISE EXCEPTION 'only the owner of the schema may record %', NEW.type USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;

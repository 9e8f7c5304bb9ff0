-- The range of the keys of a folder and of everything in it. A key ends with a slash, and 0 is the character after the
-- slash.
CREATE FUNCTION chronolake.folder(key text) RETURNS chronolake.folder_range
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN chronolake.folder_range(key, left(key, -1) || '0');

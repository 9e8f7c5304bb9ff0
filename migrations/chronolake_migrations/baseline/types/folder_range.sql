-- A folder as the range of all keys that begin with its own key. The ranges of two folders overlap only if one folder
-- contains the other. So an exclusion constraint refuses two tables whose base paths overlap.
CREATE TYPE chronolake.folder_range AS RANGE (subtype = text, collation = "C");

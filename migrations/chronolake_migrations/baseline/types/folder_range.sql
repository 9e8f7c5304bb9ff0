-- A folder as the range of all keys that begin with its own: of two folders, one contains the other or the ranges are
-- disjoint. So an exclusion constraint refuses two tables whose base paths overlap.
CREATE TYPE chronolake.folder_range AS RANGE (subtype = text, collation = "C");

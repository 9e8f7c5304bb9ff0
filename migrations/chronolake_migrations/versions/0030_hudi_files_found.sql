-- The last of them of a table says whether a check has found anything new.
CREATE INDEX event_hudi_files_found ON chronolake.event (table_id, version) WHERE type = 'HudiFilesFound';

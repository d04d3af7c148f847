-- Of which version of the SQL a member is (`join_group`): older ones say nothing.
ALTER TABLE member ADD COLUMN version integer NOT NULL DEFAULT 1;

"""The way of a group from the tables of an older version to tables that were made anew (`evermq group upgrade`)."""

"""The members of a group: how they join, live, fail, and are recovered by their peers."""

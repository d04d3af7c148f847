"""Tools of an administrator for a store: copy it, check that it is whole, and go on with what is left of it.

- `backup` a copy of a store, while the queue manager runs or when it is stopped.
- `verify` every byte of a stopped store or a backup is looked at, and none is changed.
- `recover` a store that does not start goes on with all that can be read.
- `inspection` what is found when all of a store is read, which the last two share; `reading` reads its database;
  `seed` makes up for a manifest that is gone; `naming` tells messages by queue and MsgId.
"""

"""Where messages and definitions are kept: the Store protocol and the stores that satisfy it.

It holds no rule of a queue. Import from its modules: `store` has the protocol, its rows and its errors, `memory` and
`log_store` have a store each.

Rooms: `disk` (the operating system), `log` (the journal), `snapshot` (the SQLite database behind it). `creation` and
`start` open what lies in a directory, `upkeep` keeps it in order.
"""

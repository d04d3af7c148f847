"""Queue-sharing groups: queue managers that serve the same queues, on PostgreSQL.

PostgreSQL does what a coupling facility and a shared repository do. Units of work are rows, so that peers can end those
of a member that has failed; no database transaction is longer than a call. `members.group_member` is a queue manager
in its group: what the engine asks for (`broker.engine.shared_queues`), by its parts.

    database        sessions and transactions, rows, notifications; tables and functions, which stand in `sql`
    versions        the way from tables of an older version to those that were made anew
    members         a member's lives in its group, and what its peers end for one that has failed
    definitions     the objects of the group, and commands that the group carries out
    puts, gets      MQPUT and MQGET; delayed messages, keys, locks, gets that wait
    units           units of work on private and shared queues, and how they ended
    claims          consumers, prepared units and sinks
    handlers        deliveries and trigger events
    igq             intra-group queuing: messages for the private queues of peers
"""

"""Queue-sharing groups: queue managers that serve the same queues, on PostgreSQL.

    group           QueueSharingGroup: what a queue manager joins
    schema          the tables and functions in the database (`sql`), and their version
    sessions, database
                    sessions and their lanes; transactions, how they become certain, and what errors mean to a program
    group_member    GroupMember: a queue manager in its group, with the parts that the engine asks for
                    (`broker.engine.shared_queues`)
    repository, copies
                    definitions of the group, and what each member makes of those with QSGDISP(GROUP)
    handles         who has a shared queue open
    puts, gets, units
                    MQPUT, MQGET, the ends of units of work
    put_batch       puts that are made together: in the core, and in one statement
    delays, keys    delayed messages; puts that were made before
    rounds, looks   gets that the database serves by itself, many in one call; those that look first, on `pages`
    askers          a get on its way
    waits, serving, notifications
                    gets that wait, the task that looks for them, and what wakes it
    removals, returns, locks, expiry
                    what was got goes; or comes back; browse locks; expired messages
    deliveries      messages of shared queues for handlers
    claims, holdings, ranges
                    consumers of shared queues, what is told of them, and these queues read by number
    sinks, prepared_rows
                    sinks that publish to shared queues, and their prepared units
    explaining      why a shared queue gives a message, or does not
    triggering      trigger events of shared queues
    mixed           units of work on private and on shared queues: their private halves
    peer_units      units of work of a member that does not run, as its peers see them
    outcomes        what has become of units of work whose end nobody has seen
    membership, lease, lease_times
                    the lives of a member in its group
    takeover, recovery
                    peers end what a member that has failed has left
    commands, structures, orders, moving
                    commands that the group carries out
    display_group   who is a member, and how it stands
    administration  a group as somebody sees it who is no member
    rows            messages as rows

PostgreSQL does what a coupling facility and a shared repository do. Units of work are rows, so that peers can end those
of a member that has failed; no database transaction is longer than a call.
"""

"""The queue manager on asyncio: it makes what the core decides durable, and brings the outcome to those who wait.

What is where, in the order in which a call meets it:

    manager         QueueManager: the life of a queue manager
    loading         messages of the last life are put on their queues again
    context         what the parts share, and what the steps of the core lead to

    conversation    one connection: each call of the Port is a method
    call_order      when each call of a connection is made
    room            what a connection has room for
    slow_calls      calls that take more than one step
    jobs            who takes the steps
    awaits          what the steps wait for: the journal, bodies, the group, locks
    slices          long work on the event loop, a slice at a time
    afterwards      what is done once for all that settles together

    batches         many puts, or many gets, as one call
    calls           a get on its way to its answer
    hardening       HARDENBO: it is on disk that a message is in somebody's hands
    delivery        what a getter receives
    column_frames   what a reader of many messages receives: columns
    bodies          which message bodies are in memory
    put_back        what was got and not taken goes back
    mark_expiry     browse marks end in time
    releases        delayed messages are released when their instant comes
    duplicates      a put that was made before is answered
    unit_of_work    MQBEGIN, MQCMIT, MQBACK
    rollback_only   a unit of work that can only be backed out
    claim_calls     consumers: claims, and queues read by number
    claim_jobs      what those calls do that changes a consumer, one at a time
    ranges          messages read by number: claims, and what is on a queue
    column_frames   ... as columns
    sink_calls      prepared units, and the sinks that publish them
    sink_jobs       what those calls do, one at a time for each sink and unit
    staged_rows     messages that were given as columns
    pending_unit    a unit on its way to the store
    journal         when a message is durable, visible, acknowledged: the numbered rules
    shared_queues   what is asked of a queue-sharing group
    outbox          what the queue manager puts of its own accord
    answers         how calls are answered
    mistakes        exceptions that are none of MQ's

    handling_calls      deliveries, and delayed messages
    deliveries          deliveries are handed out and taken back

    leases, monitors    trigger starts, and those who wait for one
    switch_offs         triggering that DEPTH has switched off
    tags            programs that may not run beside one another
    leaving         the end of a connection

    command_server  MQSC and ZMQSC
    scripts         the replies to a script, in parts
    changes         changes of definitions are made durable, then applied
    clearing        a queue is emptied
    group_commands  commands that a queue-sharing group has a part in
    decisions       RESOLVE and RESET are carried out
    holdings        claims and prepared units, as commands and the status show them
    claim_watch     old claims are named in the log
    figures         the status
    objects         the objects as commands, MQINQ and MQSET see them
    backups         the data is copied, while everything else goes on
"""

from broker.engine.manager import QueueManager as QueueManager

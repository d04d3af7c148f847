"""The pure core of the queue manager: what MQ's rules say happens.

It decides and returns what should happen outside as values. It never awaits, reads a clock, draws a random number, logs
or touches a file; time and identifiers are given to it. On its hot path it works with plain ints.

Its rooms import each other one way only: message, selector <- queues <- names <- calls <- claims <- prepared <-
deliveries <- explain <- manager. A noun is data; a verb form is steps on the manager. Here is what is where, in the
order in which a put and a get meet it:

    manager             the state of a queue manager, and the entry to every step
    moment              the time of a step, given by the caller

    names.definitions   definitions of objects, and changes of them
    names.objects       the objects of a queue manager by name
    names.resolution    from the two names of MQOD to a queue
    names.routes        the way that a name has led, and the rules of a put on it
    names.sharing_group  the queue-sharing group: what decides whether a message goes by intra-group queuing
    names.indirect_queue    alias queues, and local definitions of remote queues
    names.opening       MQOPEN of one object
    names.dynamic       dynamic queues, made of model queues

    queues.handles      connections and handles: Hconn, Hobj
    queues.handle_position  where a handle stands: its last put, get and browse, its cursor, its lock
    calls.options       which options go together

    calls.placing       MQPUT: a completed message joins a unit of work
    calls.put           a put on its way: the call, and what its checks made of it
    calls.put_template  a put that is like the one before it
    calls.putting       a put is checked, in order, and completed
    message.context     who put it, and from where
    message.mqmde, message.properties, message.original_header, message.headers
                        what stands for fields and properties in front of the data
    message.report_options  the Report field
    message.logical_order   groups and segments: what comes next
    message.segmentation    cutting a message that is too long
    message.transmission    messages for other queue managers: MQXQH
    message.entry       a message on a queue, and its states
    message.handling    what handlers, or a delay, have left with it
    message.rows        what a store keeps of it
    identifiers         MsgIds and arrival numbers
    calls.batches       many puts, or gets, of the plainest kind at once
    calls.distribution  distribution lists

    queues.message_queue, queues.queue, queues.queue_attributes
                        what a queue is, and one whose messages are in memory
    queues.shared_queue, queues.structure, calls.savepoint
                        one whose messages are rows of a database, what they stand in, a call on it that is made again
    queues.placed_marks
                        browse marks of a shared queue, known by the places of messages
    queues.shelf        the messages that can be found, and who may be given which
    queues.sorted_keys, queues.identity_index, queues.groups, queues.views
                        how they are found: by place, identifier, group, kind of get
    calls.delaying, calls.keying
                        a put with a delivery instant, or with a key
    queues.keys         the keys of puts, by which a second one is told
    queues.unit, queues.unit_terms
                        a unit of work
    calls.settling      it is frozen, and settles
    calls.handoff       a put that meets a waiting get, without a write

    calls.getting       MQGET: from options and descriptor to a request
    calls.choosing      which message the request is given
    queues.selection    whether a message is one that it asks for
    selector            ... by a selection string
    calls.granting      the message is given: cursor, lock, marks, unit of work
    queues.locking, queues.browse_marks
                        browse locks and browse marks
    message.assembly    put together from its segments
    message.conversion, message.coding, message.pcf
                        MQGMO_CONVERT
    queues.waiters      gets that wait, found by what they wait for
    calls.dispatch      they are offered what has become available
    queues.waiting      they end
    calls.closing       MQCLOSE

    calls.damage        messages whose data is damaged are set aside
    calls.expiring      expired messages leave their queues
    message.generated   messages that the queue manager puts itself
    message.reports, message.dead_letter, message.undelivered, message.trigger_message
                        reports, dead letters, trigger messages
    calls.sending       they are put
    events              event messages
    triggers            trigger events and counts
    group_triggers      ... of shared queues
    names.trigger_conditions
                        whether a queue can trigger at all
    queues.effects      what the engine is to carry out

    calls.arriving      messages that become available outside any put
    calls.postponing    messages are delayed
    calls.releasing     it comes
    queues.delays, queues.wheel
                        which ones are delayed, in the order of their instants
    claims.consumer, claims.consumers
                        who claims messages durably, and where it stands
    claims.claiming, claims.ending
                        which messages, and how the claims on them end
    claims.group_consumer
                        a consumer of the queue-sharing group, in figures
    claims.cutting, claims.lag
                        where a range of messages may be cut; what waits to be claimed

    prepared.unit       messages that are durable under a name, and not published yet
    prepared.sink, prepared.sinks
                        what publishes them, batch by batch, and its ledger
    prepared.staging    they pass the checks of MQPUT
    prepared.publishing, prepared.discarding
    prepared.half       what a unit of work with shared queues does to private ones, until it is decided
                        a batch is decided, and appears; what is not published goes

    deliveries.deliveries, deliveries.service, deliveries.delivery
                        messages that are handed to handlers: who serves which queue, what is in flight
    deliveries.taking, deliveries.order
                        what is handed out, and in which order
    deliveries.ending, deliveries.steps, deliveries.failures, deliveries.backoff
                        what becomes of it, and what is kept with a message that failed
    deliveries.salvaging
                        ... when a mistake of ours breaks that off
    deliveries.dead_lettering
                        ... when its attempts are used up
    deliveries.counts   figures

    calls.defining      definitions come, change and go
    explain.explaining, explain.findings
                        why a message is not given to a get
    explain.incomplete, explain.passed_over
                        ... for what its group lacks, or is
    explain.holders     who has claimed it
    explain.serving     who serves it with handlers
    explain.triggering  why it starts nothing
"""

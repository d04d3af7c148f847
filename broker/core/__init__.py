"""The pure core of the queue manager: what MQ's rules say happens.

It decides and returns what should happen outside as values. It never awaits, reads a clock, draws a random number, logs
or touches a file; time and identifiers are given to it. On its hot path it works with plain ints.

A noun is data; a verb form is steps on the manager. Each room imports only those above it, and the files beside the
rooms import all; `manager` is the entry to every step.

    security    users, their rights, and how they come in
    message     a message: its states, context, headers, conversion, and those that the queue manager makes itself
    selector    selection strings
    queues      queues, private and shared: the shelf of their messages, handles, waiting gets, units of work
    names       objects by name, from the names of MQOD to a queue, MQOPEN
    calls       the steps of calls: puts, gets, ends of units of work, expiry, definitions
    claims      consumers, and the messages that they have claimed
    prepared    prepared units and branches, and the sinks that publish them
    deliveries  messages in the hands of handlers, and what becomes of those that fail
    explain     why a message is not given to a get
"""

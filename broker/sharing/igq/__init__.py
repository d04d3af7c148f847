"""Intra-group queuing: messages from one member to another without channels (queue-sharing 9).

    agent       the life of the agent: it starts with its member, tries again, starts anew
    carrier     takes the member's own messages from the shared transmission queue, in batches
    delivery    one message, to its destination or to where it goes if that fails
    retries     how often it is tried again, and when
    definitions the shared transmission queue

Which messages come here is decided where names are resolved: `broker.core.names.sharing_group`.
"""

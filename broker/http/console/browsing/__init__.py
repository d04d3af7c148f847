"""The messages of a queue as the console browses them: a hundred at a time, none of them changed.

listed       a message as a row: what is said of it, and the first line of its data
search       which messages are meant: by MsgId, CorrelId, GroupId, a selector
cursors      browse cursors that are kept between the pages of a session
held         messages that somebody holds, so that no browse sees them
groups       groups and segmented messages, drawn as they are
descriptor   the descriptor of a message, with names for its numbers
history      what became of messages, as their queue remembers it
moving       a message moved, copied or removed
body         the data of a message: as text, as a tree of JSON, in hexadecimal digits
"""

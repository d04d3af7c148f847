"""The door of the daemon: who may come, how many at a time, and by which certificates lines are encrypted.

acceptor          takes sockets, and lets lines begin in turns
session_acceptor  makes sessions of them
http_acceptor     gives them the protocol of HTTP
entering_line     a line until it is somebody's
newcomer          one that has to log in, until it has
places            how many newcomers there may be, and whose turn it is; pure
lines             what is known of a line: address, protocol, certificate
logins            the CONNECTs of a line, and whose its conversations are
channel_lines     the lines that have come in by each channel
changes           what changes of users and channels mean for the lines that are there
tls               the contexts of TLS; imported with `[tls]` alone, as `certificates` is
certificates      the files of the contexts, watched and loaded again
"""

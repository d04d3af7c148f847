"""An attack on a daemon that serves other hosts, beside programs that must not notice.

python -m tests.security.attack --seconds 600

The daemon is on one host, an honest producer and worker on a second, the attacker on a third. The attacks come one
after the other, with quiet between them, and then all at once.

scene       the daemon with its users, the issuer of tokens, and what each side knows of them
honest      the producer, the worker and those who log in: a ledger of messages, and how long each took
attacker    the attacker's process, and its lines
sockets     attacks that need no line: port scan, half-open sockets, slow and random bytes
strangers   attacks on the login: handshakes, resumed sessions, passwords, tokens
insiders    attacks of a user who may connect and nothing else: every verb
watch       the daemon's process meanwhile: its memory, its processor time
report      what was seen, and what must not be
run         one run, from its start to its report
"""

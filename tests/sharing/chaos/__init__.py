"""Chaos: members of a queue-sharing group that are killed, stopped and cut off while programs put and get.

python -m tests.sharing.chaos --members 3 --clients 4 --seconds 60 --seed 1

member          a member in a process of its own, whose clock may be off, and which dies at a named step
clients         programs that put, move and get messages, and a ledger of what they were told
writers         programs that publish batches by sinks
scene           all that trouble can be made for
trouble         the kinds of faults, chosen by a seed, and the healing of all
member_faults, line_faults, database_faults     what happens to members, to sessions, and to the database
statements      which statements pass on a line, and the loss of one, or of its answer
tables          all that is known here of tables and functions, and what must never be in them
judging         what is in the database and on the members in the end, and what programs get then, against the ledger
times           how long waits and takeovers take
"""

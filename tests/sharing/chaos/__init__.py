"""Chaos: members of a queue-sharing group that are killed, stopped and cut off while programs put and get.

python -m tests.sharing.chaos --members 3 --clients 4 --seconds 60 --seed 1

member          a member in a process of its own, whose clock may be off, and which dies at a named step
clients         programs that put, move and get messages, and a ledger of what they were told
writers         programs that publish batches by sinks
trouble         what happens to members, sessions and the database
judging         what is in the database and on the members in the end, and what programs get then, against the ledger
times           how long waits and takeovers take
"""

"""A seeded model of how members of a queue-sharing group hold messages (queue-sharing 10).

What is in `message` is free for everybody; what anybody holds is in `held`, with whose it is. Statements are
transactions that come at any time, late or never, and whose answers get lost; members die, stand still and go on, and
are taken over by rivals; units are prepared, and decided elsewhere or by hand; consumers claim messages, and browses
lock them. `python -m tests.tools.holding_model 20000` runs so many schedules with all guards, and then finds for each
guard a schedule in which the model fails without it.

guards      what keeps messages whole
tables      the tables, and the statements on them
lives       a member in one life, with its programs: units, gets outside syncpoint, browse locks, mixed units
drivers     programs that claim messages as a consumer, some of them zombies
world       schedules, and what must hold
"""

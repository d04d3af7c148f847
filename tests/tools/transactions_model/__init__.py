"""A seeded model of transactions over a queue manager and a program's own database (docs/rules/transactions.md).

Producers, handlers, zombies, resolvers, cleaners, steps; crashes of programs, queue manager and database, cut lines,
COMMITs whose answer is lost. `python -m tests.tools.transactions_model 20000` runs so many schedules with all guards,
and then finds for each guard a schedule in which the model fails without it.
"""

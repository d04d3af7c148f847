"""The program's own database: one transaction of it decides a unit of work of the queue manager.

    database        what a program says of its database; the choice of an adapter by the class of what it gives
    opened          the database while an app runs: transactions, and what a resolver and a cleaner do
    transaction     one transaction of the program: begin, mark, commit or roll back
    markers         the table of markers: its name, its DDL, the statements; `preparing` checks it at the start
    adapter         the protocol that an adapter has; `calls` makes its calls awaitable, threaded or not
    failures        the meaning of a driver's error; `errors` are those that this package raises
    short_transactions  transactions of EverMQ's own: for the look at the start, resolvers and cleaners
    adapters        the adapters of sqlite3, aiosqlite, asyncpg, psycopg, SQLAlchemy, Django

Nothing here knows a queue manager.
"""

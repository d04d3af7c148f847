"""`evermq demo --database`: orders that become a row and two messages each, under workers that are killed on purpose.

death     the place in a transaction at which a worker kills itself, and the plan that draws them from a seed
orders    the table of orders in the database of the demonstration, SQLite or PostgreSQL
task      what a worker is told, in a file: the database, its tables, and its death
program   the two apps that workers serve: one with `database=`, one that commits by hand
workers   the processes of workers, one after the other in each place
trial     one account: orders are put, workers die, and what is left is counted
account   the account in figures
showing   both accounts, one after the other
"""

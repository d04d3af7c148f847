"""Transactions of apps: the program's own database together with what an app puts and handles.

databases         the databases of a running app
transaction       `app.transaction(db)`: one transaction of a producer
handler_database  the database of a handler
handling          one delivery under a handler that has a database
ends              the end of the transaction of a delivery
own_thread        the thread in which the transaction of a plain handler runs
"""

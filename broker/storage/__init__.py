"""Where messages and definitions are kept: the Store protocol and the stores that satisfy it.

It holds no rule of a queue. Import from its modules: `store` has the protocol, its rows and its errors, `memory` and
`sqlite` have a store each.
"""

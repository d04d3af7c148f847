"""A model of what happens at the same time: all schedules of small systems, for the rules with the mark M in security 4
and 11. `python -m tests.security.model` explores them, and prints what each guard keeps out.

explorer  systems, and all states that they can come to
groups    rights and users in a queue-sharing group
logins    passwords that change, and tokens that end
"""

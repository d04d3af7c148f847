"""The figures that the console shows: one look a second for all who look, and what of it is remembered.

observatory  looks at the status while somebody looks at the console
look         one look, as far as one caller may see it
series       figures of queues over fifteen minutes, in bounded memory
lately       what has happened between two looks
sparkline    figures as a line, in SVG
"""

"""Texts for people, on a terminal or in a browser: the same words and figures for both, without I/O.

ages      a time in few characters
dump      data in hexadecimal digits
escaping  text that somebody else chose, made fit to be shown
headers   the headers before the data of a message, by their fields
moments   instants in UTC
rates     what happened between two looks at the status, a second
"""

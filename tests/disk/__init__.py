"""A disk that cuts the power, fails, forgets and fills up as a seed has it, under the real code of the store.

From the inside out: a file's medium and cache (`inode`), the computer with its directory, its failures and its
processes (`machine`, `faults`), what one process sees of it (`simulated`, `workers`, `connection`, `sqlite_vfs`), and
what happens to files that lie there (`damage`).
"""

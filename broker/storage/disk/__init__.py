"""The disk, as the store sees it: the files of one directory, written durably, and the threads that may wait for it.

- `disk` the seam: what a store needs of an operating system. The tests put a simulated disk in its place.
- `system_disk` the real one; `system_file` an open file of it, `ways` how that is written and read past the cache.
- `worker` a thread that waits for the disk, `database_thread` one with a connection to a database.
- `directory` the data directory: made when missing, held by one queue manager at a time.
- `ballast` room kept back for the day the disk is full.
- `file_system` which file systems cannot be trusted, and why.
"""

"""Gets from shared queues: by the database alone, or by the core on a page; and what was got."""

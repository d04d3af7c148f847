"""Many messages at once: puts without waiting, batches, columns, reading ahead."""

"""A thread's board: what its agents share, who wrote it, and which names are locked."""

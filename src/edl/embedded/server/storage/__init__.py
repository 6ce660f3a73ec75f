"""The durable, versioned store: rows on disk, history in memory, watches. Knows keys and bytes, and no kind."""

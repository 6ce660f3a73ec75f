"""How the batch grows with the workers where a script allows it, and what larger batches are worth to it."""

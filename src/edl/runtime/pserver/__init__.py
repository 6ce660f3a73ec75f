"""A parameter server: one shard of a model's dense tensors and sparse rows, with optimiser state and checkpoints."""

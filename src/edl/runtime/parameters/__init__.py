"""Parameter servers: each holds one shard of a model's dense tensors and sparse rows, with optimiser state.

The master decides the layout and the checkpoints (`edl.runtime.tasks`); trainers pull and push.
"""

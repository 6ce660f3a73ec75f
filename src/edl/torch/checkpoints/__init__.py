"""Checkpoints in memory, for scripts that keep their own loop: `Checkpointer`, and the same for the Trainer.

`image` is a checkpoint in memory, `buffers` the memory, which the agent holds (`memory_link`); `folder` and `writer`
are the disk. `peers` are the other ranks, with whom `choice` finds the one checkpoint that all load. `shards` is what
models need that no rank has as a whole.
"""

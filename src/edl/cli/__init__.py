"""The command line. `main` finds and runs a command, `registry` says what a command is.

`commands` has one module per command, imported only when it is called; what they share is in `connect` (reaching a
cluster), `input` (reading files), `output` (tables and screens) and `local` (the cluster of `edl up`).
"""

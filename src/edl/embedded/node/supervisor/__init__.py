"""The small process that is the parent of every container process.

It exists so that nothing outlives the node: it receives its commands over one socket, and when that socket closes, for
whatever reason (a stop, a crash, kill -9), it kills everything below itself and ends. It is also where a fork is cheap,
where logs are written without burdening the node's event loop, and single-threaded, as entering a user namespace
requires. It runs on the standard library alone, so that it starts in a few milliseconds and stays small.
"""

"""The parts of a controller process: workqueue, controller, manager, leader election, event recorder, metrics.

Knows no kind of object: what a reconcile does is the caller's.
"""

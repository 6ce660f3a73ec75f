"""Rounds of members: the group of each, how it is built, agreed on and entered, and how state gets to newcomers.

Knows nothing of steps and data; what happens within a round is the engine's.
"""

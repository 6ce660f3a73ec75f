"""Listening sockets that strangers cannot exhaust: bounds on connections, time and memory before anybody has proved
who it is. `http` is for aiohttp applications, `unproven` for servers of ours on plain sockets; both use the rest.
"""

"""torchrun's side of the rendezvous, and workers that start warm.

The job service decides which agents train together (`edl.operator.job_service.rendezvous.lobby`). Here `agent_state`
is what one agent knows (pure) and `connection` its WebSocket; `plugin` is the entry point and needs no torch.
`handler` and `agent` subclass torch's classes. `activity` measures workers; `warm_workers`, `zygote` and
`worker_starter` fork workers from a process that has imported torch already, with the standard library alone.
"""

"""Messages between pods, operator and Brain, as types that both sides encode and decode.

`rendezvous` and `rounds` are the WebSocket of PyTorch agents (docs/reference/rendezvous-protocol.md); `slots`,
`job_state`, `progress`, `pods`, `plans` and `errors` the HTTP calls of the job service (docs/reference/job-service.md);
`brain` the calls of the Brain, which describes itself at /openapi.json.
No I/O and no decisions. A field may be added with a default, never renamed or removed: a pod and an operator of
different versions talk to each other.
"""

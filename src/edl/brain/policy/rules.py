"""Names of the policy's rules, as they stand in plans, stored histories and reports. Stable: never rename a value."""

# Start-up plans (`startup`).
START_COLD = "start-cold"  # no similar job is known: small defaults
START_SIMILAR = "start-similar"  # sizes and resources of the most similar past job

# Running plans, in order of urgency (`decide.RULES`).
OOM_KILL = "oom"  # more memory, or more servers, after a pod was killed for its memory
MEMORY = "memory"  # more memory before a pod is killed for it
TAKE_BACK = "take-back"  # reverts the last plan, which did not pay
SERVER_HOT = "server-hot"  # more cores for single parameter servers
SERVERS_CPU = "servers-cpu"  # more cores for all parameter servers
SERVERS_COUNT = "servers-count"  # more parameter servers
WORKERS_EXPLORE = "workers-explore"  # the first step beyond the only size measured
WORKERS_CURVE = "workers-curve"  # growth that the throughput curve promises
WORKERS_SHRINK = "workers-shrink"  # gives up workers that add no throughput
WORKERS_PROBE = "workers-probe"  # retries a larger size after a rest
SERVERS_TRIM = "servers-trim"  # gives back cores that parameter servers do not use

GROWTH_RULES = (WORKERS_EXPLORE, WORKERS_CURVE, WORKERS_PROBE)

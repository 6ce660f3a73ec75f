"""Commands that run a service of EDL; most are run by the operator inside pods.

Options alone: the services are in `edl.operator`, `edl.brain`, `edl.runtime` and `edl.embedded`.
"""

"""Tests of the local cluster: the embedded one with EDL's rules and services, as `edl up` runs it."""

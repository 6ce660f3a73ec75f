"""Names, label keys and label values by Kubernetes' grammar. Each function returns the problem, or None.

The patterns are for `fullmatch`; the messages are for users of EDL. The embedded API server has those of Kubernetes.
"""

import re

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
# Every pod of a job has a Service of the same name, a DNS label: `<job>-worker-99999-99` must fit into 63 characters.
JOB_NAME_MAX = 47

JOB_NAME_GRAMMAR = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
LABEL_TEXT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


def dns_label_problem(text: str) -> str | None:
    """Namespaces, containers, ports."""
    if not text:
        return "is empty"
    if len(text) > LABEL_MAX:
        return f"{_short(text)} has {len(text)} characters, at most {LABEL_MAX} are allowed"
    if not DNS_LABEL.fullmatch(text):
        return f"{_short(text)} must be lower case letters, digits and '-', and begin and end with a letter or digit"
    return None


def dns_subdomain_problem(text: str) -> str | None:
    """Most object names."""
    if not text:
        return "is empty"
    if len(text) > SUBDOMAIN_MAX:
        return f"{_short(text)} has {len(text)} characters, at most {SUBDOMAIN_MAX} are allowed"
    if not DNS_SUBDOMAIN.fullmatch(text):
        return (
            f"{_short(text)} must be lower case letters, digits, '-' and '.', and begin and end with a letter or digit"
        )
    return None


def job_name_problem(text: str) -> str | None:
    """A job's name begins the names of its pods and Services, so it is stricter than an object's."""
    if problem := dns_label_problem(text):
        return problem
    if not text[0].isalpha():
        return f"{_short(text)} begins with a digit; begin it with a letter, for its Services are named after it"
    if len(text) > JOB_NAME_MAX:
        return (
            f"{_short(text)} has {len(text)} characters, at most {JOB_NAME_MAX} leave room for the names of its pods, "
            "which begin with it"
        )
    return None


def label_value_problem(text: str) -> str | None:
    if len(text) > LABEL_MAX:
        return f"label value {_short(text)} has {len(text)} characters, at most {LABEL_MAX} are allowed"
    if text and not LABEL_TEXT.fullmatch(text):
        allowed = "letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
        return f"label value {_short(text)} must be {allowed}"
    return None


def label_key_problem(text: str) -> str | None:
    """Keys of labels, annotations and extended resources: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := dns_subdomain_problem(prefix)):
        return f"the prefix of {_short(text)} {problem}"
    if not name or len(name) > LABEL_MAX or not LABEL_TEXT.fullmatch(name):
        return (
            f"{_short(text)} must be [prefix/]name, the name of 1 to {LABEL_MAX} letters, digits, '-', '_' and '.', "
            "begun and ended with a letter or digit"
        )
    return None


def _short(text: str) -> str:
    shown = repr(text if len(text) <= 80 else text[:77] + "...")
    return f"{shown} (in YAML a comment begins with #, not //)" if " //" in text else shown

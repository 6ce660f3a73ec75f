"""Diagnosis of credentials: do the pods that run have what opens the job service, and trust what it presents?

They read token and authority from Secrets when they start. What they read must be of the installation's key and
authority, or of those that are being replaced.
"""

import base64
import binascii
import ssl
from collections.abc import Iterable, Iterator

from edl.api.kubernetes.core import Pod
from edl.api.labels import LABEL_UID, SEAL
from edl.doctor.finding import Data, Finding, listed, note, wrong
from edl.jobs.core.children import seal
from edl.jobs.core.pods.environment import CA, CA_KEY, TOKEN, TOKEN_KEY
from edl.operator.credentials.identity import Identity

Place = tuple[str, str]
"""Namespace and name."""


def examine_credentials(
    identity: Identity | None, secrets: Iterable[Data], pods: Iterable[Data], webhook: Data | None
) -> Iterator[Finding]:
    if identity is None:
        return
    known = {_place(secret): secret for secret in secrets}
    stale = {place for place, secret in known.items() if not _is_good(secret, identity)}
    live = [pod for pod in pods if not _is_over(pod)]
    users = [pod for pod in live if stale.intersection(_read_by(pod)) or _is_of_another_key(pod, identity)]
    if users:
        first = users[0]["metadata"]
        names = listed([f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in users])
        message = f"made under another key or authority than the operator's, the job service is closed to them: {names}"
        yield wrong("keys", message, f"kubectl -n {first['namespace']} delete pod {first['name']}, one after the other")
    yield from _webhook(webhook, identity)


def _webhook(webhook: Data | None, identity: Identity) -> Iterator[Finding]:
    bundles = [hook["clientConfig"].get("caBundle") for hook in (webhook or {}).get("webhooks") or ()]
    if any(bundle and not _trusts(_text(bundle), identity) for bundle in bundles):
        message = "API servers trust another authority than the operator's: wrong jobs are stored, and refused later"
        yield note("webhook", message, "an operator that leads writes its CA there within seconds; see its log")


def _is_good(secret: Data, identity: Identity) -> bool:
    data = {name: _text(value) for name, value in (secret.get("data") or {}).items()}
    token, ca = data.get(TOKEN_KEY, data.get(TOKEN)), data.get(CA_KEY, data.get(CA))
    uid = (secret["metadata"].get("labels") or {}).get(LABEL_UID, "")
    if token is None or ca is None:
        return True  # it is about something else
    return token in (identity.token(uid), *identity.former_tokens(uid)) and _trusts(ca, identity)


def _is_of_another_key(pod: Data, identity: Identity) -> bool:
    """Its Secret may have been brought up to date since it was made; its seal was not."""
    metadata = pod["metadata"]
    made, uid = (metadata.get("annotations") or {}).get(SEAL), (metadata.get("labels") or {}).get(LABEL_UID, "")
    keys = (identity.token(uid), *identity.former_tokens(uid))
    return made is not None and made not in [seal(key, Pod.KIND, metadata["name"]) for key in keys]


def _trusts(bundle: str, identity: Identity) -> bool:
    """Whether who trusts these authorities trusts the one that issues certificates."""
    issuer = identity.authority.pair.certificate.decode()
    return _der(issuer) <= _der(bundle)


def _der(bundle: str) -> set[bytes]:
    ends = "-----END CERTIFICATE-----"
    parts = [part + ends for part in bundle.split(ends)[:-1]]
    try:
        return {ssl.PEM_cert_to_DER_cert(part.strip()) for part in parts}
    except ValueError:
        return set()


def _text(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except binascii.Error:
        return ""


def _place(body: Data) -> Place:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _is_over(pod: Data) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _read_by(pod: Data) -> set[Place]:
    """The Secrets that a pod has read its environment from."""
    namespace, names = pod["metadata"]["namespace"], set()
    for container in pod["spec"].get("containers") or ():
        names |= {(one.get("secretRef") or {}).get("name") for one in container.get("envFrom") or ()}
        names |= {
            ((one.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name") for one in container.get("env") or ()
        }
    return {(namespace, name) for name in names if name}

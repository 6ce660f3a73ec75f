"""Bearer tokens: fixed ones given at start, and signed ones of service accounts (JWT, HMAC-SHA256)."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from edl.embedded.server.verbs.call import Object, User


class Tokens:
    """The users of tokens. A service account's token is void once the account is deleted or replaced."""

    issuer = "https://kubernetes.default.svc.cluster.local"

    def __init__(
        self,
        fixed: Mapping[str, User],
        *,
        key: bytes,
        account_uid: Callable[[str, str], str | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fixed = {token.encode(): user for token, user in fixed.items()}
        self._key = key
        self._account_uid = account_uid
        self._clock = clock

    def user(self, token: str) -> User | None:
        if not token.isascii():  # bytes that are no text arrive as surrogates; no token of ours has them
            return None
        raw = token.encode()
        for known, user in self._fixed.items():
            if hmac.compare_digest(known, raw):
                return user
        return self._account(token)

    def issue(self, account: Object, expires: int, spec: Object) -> str:
        namespace, name = account["namespace"], account["name"]
        now = int(self._clock())
        bound: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["uid"]}}
        reference = spec.get("boundObjectRef") or {}
        if reference.get("kind") == "Pod":
            bound["pod"] = {"name": reference.get("name", ""), "uid": reference.get("uid", "")}
        claims = {
            "aud": spec.get("audiences") or [self.issuer],
            "exp": expires,
            "iat": now,
            "iss": self.issuer,
            "kubernetes.io": bound,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def _signature(self, signed: str) -> str:
        digest = hmac.new(self._key, signed.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _account(self, token: str) -> User | None:
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(self._signature(signed).encode(), signature.encode()):
            return None
        claims = _decode(signed.partition(".")[2])
        bound = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        if claims["exp"] < self._clock() or self._account_uid(namespace, account["name"]) != account["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(claims["sub"], groups, account["uid"])


def _encode(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _decode(text: str) -> dict[str, Any]:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return msgspec.json.decode(raw, type=dict[str, Any])

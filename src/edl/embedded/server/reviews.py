"""Reviews: questions about identity and permission, answered and never stored. RBAC is not enforced, and they say
so."""

from __future__ import annotations

from edl.embedded.server import body, status
from edl.embedded.server.call import ANONYMOUS, Answer, Call, Object, User
from edl.embedded.server.core import Core, encode
from edl.embedded.server.tokens import Tokens

_REASON = "the embedded cluster does not enforce RBAC"


async def answer(core: Core, call: Call, tokens: Tokens) -> Answer:
    review = body.parse_object(call)
    review.pop("metadata", None)
    match call.resource.kind:
        case "SelfSubjectReview":
            review["status"] = {"userInfo": _user_info(call.user)}
        case "TokenReview":
            review["status"] = _token(tokens, review)
        case "SelfSubjectRulesReview":
            review["status"] = _rules()
        case _:
            review["status"] = {"allowed": call.user is not ANONYMOUS, "reason": _REASON}
    head = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": {}}
    return Answer(201, encode({**head, **review}), warnings=call.warnings)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    return info


def _token(tokens: Tokens, review: Object) -> Object:
    user = tokens.user(review["spec"].get("token") or "")
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user_info(user)}


def _rules() -> Object:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


async def issue_token(core: Core, call: Call, tokens: Tokens) -> Answer:
    """`serviceaccounts/NAME/token`: a token that this server accepts until it expires."""
    request = body.parse_as(call, "authentication.TokenRequest")
    entry = core.store.get("/serviceaccounts", call.key)
    if entry is None:
        raise call.not_found()
    account = core.read(call.resource, entry)
    seconds = request["spec"].get("expirationSeconds") or 3600
    if seconds < 600:
        text = "Invalid value: " + str(seconds) + ": may not specify a duration less than 10 minutes"
        cause = status.Cause("FieldValueInvalid", text, "spec.expirationSeconds")
        raise status.invalid("authentication.k8s.io", "TokenRequest", "", [cause])
    token = tokens.issue(account["metadata"], int(core.clock()) + seconds, request["spec"])
    spec = {
        **request["spec"],
        "expirationSeconds": seconds,
        "audiences": request["spec"].get("audiences") or [tokens.issuer],
    }
    granted = {"token": token, "expirationTimestamp": core.now(ahead=seconds)}
    meta = {"name": call.name, "namespace": call.namespace, "creationTimestamp": core.now()}
    answer_ = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": meta,
        "spec": spec,
        "status": granted,
    }
    return Answer(201, encode(answer_))

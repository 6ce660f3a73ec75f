"""Reviews of identity and permission: answered, never stored. RBAC is not enforced, and the answers say so."""

from edl.embedded.server import authorization, status
from edl.embedded.server.core import Core, encode
from edl.embedded.server.http.tokens import Tokens
from edl.embedded.server.verbs import body
from edl.embedded.server.verbs.call import ANONYMOUS, Call, Object, Response, User

_REASON = "the embedded cluster does not enforce RBAC"


async def respond(core: Core, call: Call, tokens: Tokens) -> Response:
    review = body.parse_object(call)
    review.pop("metadata", None)
    match call.resource.kind:
        case "SelfSubjectReview":
            review["status"] = {"userInfo": _user_info(call.user)}
        case "TokenReview":
            review["status"] = _token(tokens, review)
        case "SelfSubjectRulesReview":
            review["status"] = _rules(core, call.user)
        case _:
            review["status"] = {"allowed": _allowed(core, call.user, review), "reason": _REASON}
    head = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": {}}
    return Response(201, encode({**head, **review}), warnings=call.warnings)


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


def _allowed(core: Core, user: User, review: Object) -> bool:
    """Of the caller: who may ask about others may do everything."""
    wanted = (review.get("spec") or {}).get("resourceAttributes")
    own = authorization.account_namespace(user)
    if own is None or wanted is None:
        return user is not ANONYMOUS
    named = wanted.get("group", ""), wanted.get("resource", "")
    found = next((entry for entry in core.registry if (entry.group, entry.plural) == named), None)
    return found is not None and authorization.allowed(
        user, found, wanted.get("namespace", ""), wanted.get("subresource", ""), core.pod_groups
    )


def _rules(core: Core, user: User) -> Object:
    rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    if authorization.account_namespace(user) is not None:
        rules = [{"verbs": ["*"], "apiGroups": [""], "resources": ["pods", "configmaps"]}]
        rules += [{"verbs": ["*"], "apiGroups": [group], "resources": ["*"]} for group in sorted(core.pod_groups())]
    return {
        "resourceRules": rules,
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


async def issue_token(core: Core, call: Call, tokens: Tokens) -> Response:
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
    return Response(201, encode(answer_))

"""Problems (RFC 9457) and their types: each a path, a title that never varies, a page that says what to do."""

import msgspec

MEDIA_TYPE = "application/problem+json"


class ProblemError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault: what is wrong, and where in the body or in which query parameter."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a request wasn't answered."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[ProblemError, ...] = ()
    nearest: tuple[str, ...] = ()
    """Keys most like an unknown one, best first."""


class ProblemType(msgspec.Struct, frozen=True):
    """One kind of failure that a caller can tell apart by its `type`."""

    slug: str
    status: int
    title: str
    meaning: str
    fix: str

    @property
    def path(self) -> str:
        """The `type` member: a path of this service."""
        return f"/problems/{self.slug}"


MALFORMED_JSON = ProblemType(
    "malformed-json",
    400,
    "The body is not unambiguous JSON",
    "The bytes are not JSON, or JSON that two readers would read differently: a key that comes twice, NaN, infinity,"
    " U+0000 in a text, half of a surrogate pair.",
    "Send one JSON document in UTF-8. `errors` points at the place.",
)
INVALID_PARAMETERS = ProblemType(
    "invalid-parameters",
    400,
    "A query parameter can't be read",
    "A query parameter is unknown, comes twice or has a value of the wrong kind.",
    "`errors` names each parameter; the OpenAPI document lists the ones that a route takes.",
)
BAD_REQUEST = ProblemType(
    "bad-request",
    400,
    "The request can't be read",
    "The request is not one that HTTP or this service understands.",
    "Compare it with the OpenAPI document.",
)
NOT_FOUND = ProblemType(
    "not-found",
    404,
    "There is nothing here",
    "No route, plan, observation, catalog entry or version has this address.",
    "Check the address; lists name what there is.",
)
METHOD_NOT_ALLOWED = ProblemType(
    "method-not-allowed",
    405,
    "The method is not allowed here",
    "The address exists, but not for this method.",
    "The Allow header lists the methods that it takes.",
)
PAYLOAD_TOO_LARGE = ProblemType(
    "payload-too-large",
    413,
    "The body is too large",
    "A question may have at most 1 MiB (1,048,576 bytes), an observation 5 MiB, of which a log 4 MiB.",
    "Reduce rows to a joint histogram: it is smaller, and close to them with three bins per octave or more. Cut a log"
    " after the lines of the start-up.",
)
UNSUPPORTED_MEDIA_TYPE = ProblemType(
    "unsupported-media-type",
    415,
    "The body is not JSON",
    "The Content-Type says that the body is something else than JSON.",
    "Send application/json, or no Content-Type.",
)
VALIDATION = ProblemType(
    "validation",
    422,
    "The question can't be answered as asked",
    "It is JSON, but a field is unknown, missing, of the wrong type or out of its bounds, or its values mean nothing.",
    "`errors` points at each place and says what is expected there.",
)
UNKNOWN_MODEL = ProblemType(
    "unknown-model",
    422,
    "The catalog has no such model",
    "No catalog entry has this key, or not this version of it.",
    "`nearest` lists the keys most like it; GET /v1/models lists all.",
)
UNKNOWN_GPU = ProblemType(
    "unknown-gpu",
    422,
    "The catalog has no such GPU",
    "No catalog entry has this key, or not this version of it.",
    "`nearest` lists the keys most like it; GET /v1/gpus lists all.",
)
UNKNOWN_ENGINE = ProblemType(
    "unknown-engine",
    422,
    "The catalog has no such engine",
    "No catalog entry has this key, or not this version of it.",
    "`nearest` lists the keys most like it. Left out, the engine is `generic`.",
)
UNKNOWN_WORKLOAD = ProblemType(
    "unknown-workload",
    422,
    "The catalog has no such workload",
    "No catalog entry has this key, or not this version of it.",
    "`nearest` lists the keys most like it; GET /v1/workloads lists all. Lengths of your own go into the question.",
)
UNSUPPORTED_COMBINATION = ProblemType(
    "unsupported-combination",
    422,
    "The parts of the question don't go together",
    "Each value is fine by itself, but not with the others: a window past the model's limit, a tensor-parallel size"
    " that doesn't divide the heads.",
    "`errors` says which values would be legal.",
)
NOT_PLANNED_YET = ProblemType(
    "not-planned-yet",
    422,
    "This can't be planned yet",
    "The model or GPU is known, but a part of it isn't planned by this release, or a figure that a plan needs isn't"
    " known. Nothing is priced as something else.",
    "`errors` names the part. Choose another model or GPU, or a later release.",
)
INTERNAL = ProblemType(
    "internal",
    500,
    "Something went wrong inside",
    "A fault of the service, not of the request. It has been logged under the request's id.",
    "Report it with the X-Request-Id of the response.",
)
UNAVAILABLE = ProblemType(
    "unavailable",
    503,
    "PostgreSQL is not available",
    "What records or reads records needs PostgreSQL, and it didn't answer in time. Estimates still work, but for those"
    " that ask for the observed reserve.",
    "Try again after the time in Retry-After. A question asked again is the same plan, at most with one more decision.",
)

PROBLEM_TYPES: dict[str, ProblemType] = {
    kind.slug: kind
    for kind in (
        MALFORMED_JSON,
        INVALID_PARAMETERS,
        BAD_REQUEST,
        NOT_FOUND,
        METHOD_NOT_ALLOWED,
        PAYLOAD_TOO_LARGE,
        UNSUPPORTED_MEDIA_TYPE,
        VALIDATION,
        UNKNOWN_MODEL,
        UNKNOWN_GPU,
        UNKNOWN_ENGINE,
        UNKNOWN_WORKLOAD,
        UNSUPPORTED_COMBINATION,
        NOT_PLANNED_YET,
        INTERNAL,
        UNAVAILABLE,
    )
}

"""An observation as callers write it: of which plan or question it is, and a log, or its figures as fields."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from service.errors import Fault, Refused
from service.readers.question import MOST, Amount, AskedQuestion, Count, Users

LONGEST_LOG = 4 * 2**20
"""Bytes of a log as JSON, where an ESC takes six. A start-up has some hundred lines; what the server says of requests
afterwards isn't read."""

CUT_IT = "cut it after the lines of the start-up"
"""What to do about a longer one."""

PlanId = Annotated[str, Meta(pattern="^pln_[0-9a-f]{64}$", max_length=68)]

_PRINTED = r"^\d{1,9}(\.\d{1,9})? (KiB|MiB|GiB)$"
Printed = Amount | Annotated[str, Meta(pattern=_PRINTED, max_length=32)]
"""An amount of memory: whole bytes, or the text that an engine printed, which says how it was rounded."""


def _about(description: str) -> Meta:
    return Meta(description=description)


class AskedFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one start-up said. An amount is in bytes, or a text as printed, such as "54.96 GiB": of its tightest GPU."""

    version: Annotated[
        Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[\w.+-]+$")] | None,
        _about("The engine's version as it prints it, such as 0.10.2."),
    ] = None
    outcome: Annotated[
        Literal["ready", "failed", "unfinished"], _about("How the start ended. Left out: it got ready.")
    ] = "ready"
    reported_capacity: Annotated[Printed | None, _about("All memory of the card, as the engine sees it.")] = None
    weights: Annotated[Printed | None, _about("What loading the model took.")] = None
    kv_cache: Annotated[Printed | None, _about("What was left for the KV cache.")] = None
    max_concurrency: Annotated[
        Annotated[float, Meta(ge=0, le=MOST)] | None,
        _about("The maximum concurrency that the engine printed, in hundredths."),
    ] = None
    kv_cache_tokens: Annotated[Count | None, _about("The tokens of the KV cache that it printed.")] = None
    gpu_blocks: Annotated[Users | None, _about("The blocks that it printed.")] = None


class AskedObservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an engine printed when it started: a log or its figures, and the plan or the question that it is about."""

    plan: Annotated[PlanId | None, _about("The id of a recorded plan.")] = None
    question: AskedQuestion | None = None
    log: Annotated[
        Annotated[str, Meta(min_length=1, extra_json_schema={"maxLength": LONGEST_LOG})] | None,
        _about("The log of the start. It is read and not kept: only its digest and the figures found in it are."),
    ] = None
    fields: AskedFields | None = None


def check_length(log: str) -> None:
    """Raise `Refused` for a log that is too long to be sent."""
    if len(msgspec.json.encode(log)) - len('""') > LONGEST_LOG:
        raise Refused(Fault("/log", f"takes more than {LONGEST_LOG:,} bytes as JSON: {CUT_IT}"))

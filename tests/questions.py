"""Questions for tests, as callers write them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from service.capacity.answer import Answer
from service.capacity.planner import plan
from service.catalog.bundled import bundled_catalog
from service.catalog.resolve import resolve
from service.readers import strict_json
from service.readers.question import AskedQuestion

REFERENCE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100-sxm-80gb",
    "levers": {"max_model_len": 8192},
}
"""Llama 3.1 8B in bf16 on one H100 80 GB, window 8,192, engine generic."""


def asked(levers: Mapping[str, object] = MappingProxyType({}), **changes: object) -> AskedQuestion:
    """The reference question with other parts; `levers` are merged."""
    document = REFERENCE | changes
    document["levers"] = REFERENCE["levers"] | levers
    return strict_json.decode(msgspec.json.encode(document), AskedQuestion)


def answered(levers: Mapping[str, object] = MappingProxyType({}), **changes: object) -> Answer:
    """The answer to the reference question with other parts, from the bundled catalog."""
    return plan(resolve(asked(levers, **changes), bundled_catalog()))


def at_risk(answer: Answer, risk: float = 0.01) -> int:
    """The users of an answer at one of its risks."""
    users = answer.users.at(risk)
    assert users is not None
    return users

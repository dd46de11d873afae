"""The bytes that stand for a question, and the plan's id made of them."""

import hashlib

import msgspec

from service.capacity.planner import PLANNER
from service.capacity.question import Pinned, Question, Spec


def canonical_question(question: Question) -> bytes:
    """Render a question for hashing and for storage.

    Keys sorted, no spaces, every default written out, every catalog name as key, version and spec digest, what was
    given inline as the spec that was read from it; floats in their shortest decimal. Equal questions give equal
    bytes, however they were written.
    """
    document: dict[str, object] = {
        "model": _name(question.model),
        "gpu": _name(question.gpu),
        "engine": _name(question.engine),
        "draft_model": None if question.draft_model is None else _name(question.draft_model),
        "levers": question.levers,
        "workload": question.workload if question.named_workload is None else _name(question.named_workload),
        "risk": question.risk,
        "tau": question.tau,
        "sessions": question.sessions,
        "targets": question.targets,
        "planner": PLANNER,
    }
    if question.observed_reserve is not None:
        document["observed_reserve"] = question.observed_reserve
    return msgspec.json.encode(document, order="sorted")


def plan_id(canonical: bytes) -> str:
    """`pln_` and the SHA-256 of the canonical question in hexadecimal."""
    return f"pln_{hashlib.sha256(canonical).hexdigest()}"


def _name(pinned: Pinned[Spec]) -> dict[str, object]:
    if pinned.version is None:
        return {"key": pinned.key, "spec": pinned.spec}
    return {"key": pinned.key, "version": pinned.version, "digest": pinned.digest}

"""The way of a question: names to pinned versions, to an answer, to bytes. The same for HTTP and command line."""

import hashlib

import msgspec

from service.capacity.answer import Answer
from service.capacity.canonical import canonical_question, plan_id
from service.capacity.planner import plan
from service.capacity.question import ObservedReserve, Question
from service.capacity.split.splitting import split
from service.catalog.entries import Catalog
from service.catalog.resolve import resolve
from service.readers.question import AskedPools, AskedQuestion


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer, in the very bytes that are hashed, stored and sent."""

    id: str
    question: Question
    question_bytes: bytes
    answer: Answer
    answer_bytes: bytes

    @property
    def answer_digest(self) -> str:
        """SHA-256 of the answer in hexadecimal."""
        return hashlib.sha256(self.answer_bytes).hexdigest()


class Estimated(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer, in the very bytes that are sent."""

    question: Question
    answer: Answer
    answer_bytes: bytes


def estimate(asked: AskedQuestion, catalog: Catalog, observed: ObservedReserve | None = None) -> Estimated:
    """Answer a question without recording it: `plan` and `plan_url` are null."""
    question = resolve(asked, catalog, observed)
    answer = plan(question)
    return Estimated(question=question, answer=answer, answer_bytes=msgspec.json.encode(answer))


def compare_pools(asked: AskedPools, catalog: Catalog, observed: ObservedReserve | None = None) -> bytes:
    """Say what a pool of its own for long requests buys, in the very bytes that are sent."""
    answer = split(resolve(asked.question, catalog, observed), asked.split_at, asked.route_by)
    return msgspec.json.encode(answer)


def planned(asked: AskedQuestion, catalog: Catalog, observed: ObservedReserve | None = None) -> Planned:
    """Answer a question in the form that is recorded: the answer names its own plan."""
    question = resolve(asked, catalog, observed)
    question_bytes = canonical_question(question)
    identity = plan_id(question_bytes)
    answer = msgspec.structs.replace(plan(question), plan=identity, plan_url=f"/v1/plans/{identity}")
    return Planned(
        id=identity,
        question=question,
        question_bytes=question_bytes,
        answer=answer,
        answer_bytes=msgspec.json.encode(answer),
    )

"""`/v1/models/read`: a config.json in, the model that is read from it out. Recorded nowhere."""

from functools import partial

import msgspec

from service.api.bodies import body_of, query_of
from service.api.envelope import AnyRequest
from service.api.off_loop import off_loop
from service.api.operations import QUESTION_PROBLEMS, Operation, post
from service.capacity.model import Model
from service.catalog.resolve import inline_model
from service.readers.question import AskedConfig


class ReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as a question would take it; every figure says which field it was read from."""

    key: str
    """What answers call it: it is in no catalog."""
    digest: str
    """SHA-256 of the spec's canonical bytes: equal for configurations that mean the same."""
    spec: Model


@post(
    "/v1/models/read",
    Operation(
        id="readModelConfig",
        tag="catalog",
        summary="Read a config.json",
        description=(
            "The model that a Hugging Face config.json describes: its caches, parameters and weights. An architecture"
            " or a field that can't be read is named, never guessed. A question takes the same document as its `model`."
        ),
        body=AskedConfig,
        answer=ReadModel,
        problems=QUESTION_PROBLEMS,
    ),
)
async def read_config(request: AnyRequest) -> ReadModel:
    """Read a configuration."""
    query_of(request, ())
    asked = await body_of(request, AskedConfig)
    size = len(await request.body())
    read = partial(inline_model, asked.config, asked.parameters, asked.weight_bytes, pointer="/config")
    pinned = await off_loop(size, read)
    return ReadModel(key=pinned.key, digest=pinned.digest, spec=pinned.spec)

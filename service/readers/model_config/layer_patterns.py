"""Which layer is of which kind: the many ways in which configurations say it."""

from collections.abc import Callable, Sequence

from service.errors import Fault, Refused
from service.readers.model_config.decoder import Shape
from service.readers.model_config.fields import TOKENS, Fields

FULL, WINDOW, CHUNK = "full", "window", "chunk"
LINEAR, CONVOLUTION, STATE, FEED_FORWARD, MIXTURE, SPARSE = (
    "linear",
    "conv",
    "state",
    "feed forward",
    "mixture",
    "sparse",
)

_LAYER_TYPES = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": WINDOW,
    "chunked_attention": CHUNK,
    "linear_attention": LINEAR,
    "conv": CONVOLUTION,
    "mamba": STATE,
    "mlp": FEED_FORWARD,
    "moe": MIXTURE,
    "deepseek_sparse_attention": SPARSE,
}
_LETTERS = {"M": STATE, "*": FULL, "-": FEED_FORWARD, "E": MIXTURE}
"""The letters of `hybrid_override_pattern` (Nemotron-H)."""

Pattern = Callable[[Fields, Shape], Sequence[str]]


def listed(fields: Fields, layers: int | None, known: Sequence[str], name: str = "layer_types") -> tuple[str, ...]:
    """Kinds of layers that are listed one by one; empty where there is no such list.

    Raises:
        Refused: an entry isn't one of the `known` kinds of this family, or there isn't one for each of the `layers`.
    """
    entries = fields.items(name)
    if not entries:
        return ()
    if layers is not None:
        fields.match_layers(name, len(entries), layers)
    kinds = []
    for index, entry in enumerate(entries[:layers]):
        kind = _LAYER_TYPES.get(entry) if isinstance(entry, str) else None
        if kind is None or kind not in known:
            shown = f"'{entry}'" if isinstance(entry, str) and len(entry) < 60 else "this entry"  # noqa: PLR2004
            detail = f"no layer of {fields.owner} is known to be {shown}"
            raise Refused(Fault(f"{fields.at(name)}/{index}", detail))
        kinds.append(kind)
    return tuple(kinds)


def lettered(fields: Fields, name: str) -> tuple[str, ...]:
    """Kinds of layers that are written as one letter each; empty where there is no such string."""
    pattern = fields.text(name) or ""
    if len(pattern) > 2_048 or not set(pattern) <= set(_LETTERS):  # noqa: PLR2004 - as fields.LAYERS
        raise Refused(Fault(fields.at(name), f"{name} may hold only M (Mamba), * (attention), - (MLP) and E (experts)"))
    return tuple(_LETTERS[letter] for letter in pattern)


def window_of(fields: Fields, shape: Shape) -> int | None:
    """The window that counts: stated, not switched off, and shorter than the context."""
    if not fields.flag("use_sliding_window", otherwise=True) or not fields.has("sliding_window"):
        return None
    window = fields.count("sliding_window", most=TOKENS)
    return window if window < shape.positions else None


def without_windows(_: Fields, shape: Shape) -> Sequence[str]:
    """Every layer sees everything."""
    return (FULL,) * shape.layers


def all_windows(fields: Fields, shape: Shape) -> Sequence[str]:
    """Every layer has the window, if one counts (Mistral-7B-v0.1, Phi-3)."""
    stated = listed(fields, shape.layers, (FULL, WINDOW))
    kinds = stated or (WINDOW,) * shape.layers
    return kinds if window_of(fields, shape) is not None else (FULL,) * shape.layers


def late_windows(fields: Fields, shape: Shape) -> Sequence[str]:
    """Layers from `max_window_layers` on have the window, and only if `use_sliding_window` says so (Qwen)."""
    stated = listed(fields, shape.layers, (FULL, WINDOW))
    first, window = fields.count_or("max_window_layers", 28), window_of(fields, shape)
    fields.raw("sliding_window")
    if not fields.flag("use_sliding_window") or window is None:
        return (FULL,) * shape.layers
    return stated or tuple(WINDOW if layer >= first else FULL for layer in range(shape.layers))


_OF_CHUNKS = frozenset(
    {"chunk_size", "local_size", "original_max_position_embeddings", "sparse_attention_config"}
    | {"sparse_attention_enabled"}
)
"""Fields of dual chunk attention: where positions start again, and which keys a long prompt looks at."""


def dual_chunks(fields: Fields, shape: Shape) -> Sequence[str]:
    """Qwen's layers, as `late_windows`: dual chunk attention changes positions, and every key and value is kept."""
    fields.section("dual_chunk_attention_config", _OF_CHUNKS)
    return late_windows(fields, shape)


def every(
    interval: int, *, name: str = "sliding_window_pattern", first: int | None = None, local: str = WINDOW
) -> Pattern:
    """Every `interval`-th layer sees everything, the others are `local`, unless the configuration lists the layers.

    `name` is the field that may state another interval (or a pattern such as LLLG); `first` the first layer that
    sees everything, by default the last of the first interval.
    """

    def pattern(fields: Fields, shape: Shape) -> Sequence[str]:
        letters = fields.raw(name)
        if isinstance(letters, str):
            if not 0 < len(letters) <= shape.layers or not set(letters) <= set("LG"):
                raise Refused(Fault(fields.at(name), f"{name} has to be a short text of L (local) and G (global)"))
            repeated: Sequence[str] = tuple(
                local if letters[layer % len(letters)] == "L" else FULL for layer in range(shape.layers)
            )
        else:
            step = fields.count_or(name, interval, least=1)
            full = step - 1 if first is None else first
            repeated = tuple(FULL if layer % step == full % step else local for layer in range(shape.layers))
        kinds = listed(fields, shape.layers, (FULL, local)) or repeated
        return kinds if local != WINDOW or window_of(fields, shape) is not None else (FULL,) * shape.layers

    return pattern


def without_rotation(fields: Fields, shape: Shape) -> Sequence[str]:
    """Llama 4: layers that `no_rope_layers` marks with 0 see everything, by default every 4th; the others chunks."""
    kinds = listed(fields, shape.layers, (FULL, CHUNK))
    marks = fields.counts("no_rope_layers", most=1, length=shape.layers) if fields.items("no_rope_layers") else ()
    marked = tuple(CHUNK if mark else FULL for mark in marks)
    if kinds and marked and kinds != marked:
        raise Refused(Fault(fields.at("no_rope_layers"), "no_rope_layers and layer_types disagree on the layers"))
    return kinds or marked or every(4, name="no_rope_layer_interval", local=CHUNK)(fields, shape)


def numbered(fields: Fields, shape: Shape, name: str, *, from_one: bool) -> frozenset[int]:
    """Layers that are listed by number, counted from 0."""
    shift = int(from_one)
    numbers = frozenset(number - shift for number in fields.counts(name, most=shape.layers))
    if any(not 0 <= number < shape.layers for number in numbers):
        raise Refused(Fault(fields.at(name), f"{name} names a layer outside the {shape.layers} that there are"))
    return numbers

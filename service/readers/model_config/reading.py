"""From the fields of a configuration to a model."""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.cache import CacheKind
from service.capacity.cache.footprint import Ring, State, Storage
from service.capacity.figures import Confidence, Figure
from service.capacity.model import Model
from service.errors import Fault, Refused
from service.readers.model_config.architecture import architecture_of, family_of
from service.readers.model_config.context_length import longest_context
from service.readers.model_config.decoder import Drafts, Family, FeedForward, Shape, caches_of, total, widest
from service.readers.model_config.feed_forward import expert_width
from service.readers.model_config.fields import HEADS, LAYERS, Fields
from service.readers.model_config.leftovers import is_tower
from service.readers.model_config.lora import lora_widths
from service.readers.model_config.nesting import text_values
from service.readers.model_config.quantisation import MODEL_DTYPES, kv_cache_scheme, read_quantisation
from service.readers.model_config.refusals import refuse_unknown
from service.readers.model_config.sizes import MOST_PARAMETERS, parameters_figure, weights_figure
from service.readers.model_config.tally import tally
from service.readers.model_config.weights import Counted

_MOST_BYTES = 10**15
_MOST_BYTES_PER_TOKEN, _MOST_BYTES_OF_STATE = 2**28, 2**38
"""Past what any model keeps, and small enough for whole numbers of 64 bits."""

_OF_FEED_FORWARDS = ("first_k_dense_replace", "shared_expert_intermediate_size")


def read_model(
    config: Mapping[str, object], *, parameters: int | None = None, weight_bytes: int | None = None
) -> Model:
    """Read a model from a Hugging Face `config.json`.

    `parameters` is the total of the checkpoint's tensors (safetensors metadata) and `weight_bytes` the size of its
    files, where the caller knows them: they show what the configuration doesn't, such as towers.

    Raises:
        Refused: a field is missing, wrong or unknown, or the architecture is; each fault points into `config`.
        NotPlannedYet: the architecture is known, and a part of it isn't planned.
    """
    for name, given, most in (
        ("parameters", parameters, MOST_PARAMETERS),
        ("weight_bytes", weight_bytes, _MOST_BYTES),
    ):
        if given is not None and not 0 < given <= most:
            raise Refused(Fault("", f"{name} has to lie between 1 and {most:,}"))
    around, values, pointer = text_values(config)
    outer = around[0]
    family, model_type = family_of(around, values, pointer)
    fields = Fields(values, pointer, family.defaults, family.config_class)
    fields.raw("architectures")
    shape, context_source = _shape(fields, family)
    mixers = family.mixers(fields, shape)
    feed_forwards = family.feed_forwards(fields, shape)
    forwards = [layer.weights for layer in feed_forwards]
    drafts = family.drafts(fields, shape, mixers, forwards) if family.drafts else None
    if drafts is not None and drafts.caches:
        drafts = msgspec.structs.replace(drafts, caches=_numbered_on(drafts.caches, shape.layers))
    caches = caches_of(mixers)
    _refuse_unreal(caches, fields)
    tied, extras = _tied(fields, outer, family), family.extras(fields, shape) if family.extras else tally()
    dtype = _dtype(fields, outer)
    section = _quantisation(fields, outer)
    formats = read_quantisation(
        section,
        MODEL_DTYPES[dtype or "bfloat16"],
        fields.text("expert_dtype") or outer.text("expert_dtype"),
        experts_only=family.experts_only,
        hidden=shape.hidden,
    )
    scheme = kv_cache_scheme(section)
    refuse_unknown(fields, around, family, model_type)
    norm = shape.hidden * family.norm_width
    experts = fields.count_or("num_experts", 0, most=HEADS) if family.counted else 0
    counted = Counted(
        layers=[
            total([mixer.weights, forward, tally(small=family.norms * norm)])
            for mixer, forward in zip(mixers, forwards, strict=True)
        ],
        extras=extras,
        embeddings=shape.vocabulary * shape.hidden,
        head=0 if tied else shape.vocabulary * shape.hidden,
        final_norm=norm,
        hidden=shape.hidden,
        experts=experts,
        expert_width=expert_width(fields) if experts else 0,
        drafts=drafts,
    )
    lora = lora_widths(fields, shape, mixers, feed_forwards)
    given = parameters is not None or weight_bytes is not None
    notes = _notes(drafts, outer, counted=family.counted, given=given)
    towers = any(is_tower(name) for name in outer.names())
    assumed, confidence = _provenance(fields)
    stated = "config.json"
    return Model(
        architecture=architecture_of(outer, model_type),
        dtype=Figure(dtype, f"{_holder_of_dtype(fields, outer).called('dtype')} of the config.json", "high")
        if dtype
        else None,
        hidden_size=_figure(fields, "hidden_size", shape.hidden),
        vocab_size=_figure(fields, "vocab_size", shape.vocabulary),
        query_heads=_figure(fields, "num_attention_heads", shape.query_heads),
        max_position_embeddings=Figure(shape.context, *context_source),
        feed_forward_width=_feed_forward_width(fields, feed_forwards),
        layers=(
            Figure(shape.layers, "the layers of the config.json", "high")
            if family.layers
            else _figure(fields, "num_hidden_layers", shape.layers)
        ),
        caches=Figure(caches, f"layers, heads and widths of the {stated}{assumed}", confidence),
        draft_caches=(
            Figure(drafts.caches, f"draft layers of the {stated}", "medium")
            if drafts is not None and drafts.caches is not None
            else None
        ),
        kv_cache_scheme=Figure(scheme[0], f"{scheme[1]} of the {stated}", "high") if scheme else None,
        parameters=parameters_figure(counted, family, parameters, assumed, confidence),
        lora=None if lora is None else Figure(lora, f"widths of the projections in the {stated}", "medium"),
        weights=weights_figure(
            counted, family, formats, parameters, weight_bytes, towers=towers, complete=notes is None
        ),
        notes=notes,
    )


def _numbered_on(caches: tuple[CacheKind, ...], layers: int) -> tuple[CacheKind, ...]:
    """Number the layers of a draft on behind the model's."""
    return tuple(msgspec.structs.replace(one, at=((layers, layers + one.layers, 1),)) for one in caches)


def _shape(fields: Fields, family: Family) -> tuple[Shape, tuple[str, Confidence]]:
    layers = family.layers(fields) if family.layers else fields.count("num_hidden_layers", most=LAYERS)
    context, positions, source = longest_context(
        fields,
        linear_counts="Gemma3" not in family.config_class,
    )
    shape = Shape(
        layers=layers,
        hidden=fields.count("hidden_size", most=2**20),
        vocabulary=fields.count("vocab_size"),
        query_heads=fields.count("num_attention_heads", most=HEADS),
        context=context,
        positions=positions,
    )
    if "max_position_embeddings" in fields.assumed:
        return shape, (f"class default of {fields.owner}", "medium")
    return shape, (source, "high")


def _notes(drafts: Drafts | None, outer: Fields, *, counted: bool, given: bool) -> str | None:
    """What the weights lack although the configuration declares it."""
    if given:
        return None
    if not counted:
        return "The parameters of this architecture can't be counted: give their total or the size of the files."
    names = sorted(name for name in outer.names() if is_tower(name) and outer.has(name))
    lacking = [f"what {name} describes" for name in names]
    if drafts is not None and drafts.caches and drafts.weights is None:
        lacking.append("the draft layers")
    return f"Not counted in the weights: {', '.join(lacking)}." if lacking else None


def _tied(fields: Fields, outer: Fields, family: Family) -> bool:
    """Whether the head is the embedding table: said by the text decoder, else beside it, else by the class."""
    if fields.has("tie_word_embeddings"):
        return fields.flag("tie_word_embeddings")
    return outer.flag("tie_word_embeddings", otherwise=family.tied)


def _quantisation(fields: Fields, outer: Fields) -> Fields | None:
    """The `quantization_config` of the text decoder, or the one beside it, where only one of them states any."""
    inner = fields.section("quantization_config")
    beside = outer.section("quantization_config") if fields.pointer else None
    if inner is not None and beside is not None:
        detail = f"it stands beside {fields.called('quantization_config')}: only one of them can be read"
        raise Refused(Fault(beside.pointer, detail))
    return inner or beside


def _dtype(fields: Fields, outer: Fields) -> str | None:
    """The dtype that the configuration names."""
    holder = _holder_of_dtype(fields, outer)
    name = (holder.text("dtype") or "").removeprefix("torch.")
    if name and name not in MODEL_DTYPES:
        detail = f"'{name[:40]}' isn't a dtype that models are served in: {', '.join(MODEL_DTYPES)}"
        raise Refused(Fault(holder.at("dtype"), detail))
    return name or None


def _holder_of_dtype(fields: Fields, outer: Fields) -> Fields:
    """The object that names the dtype: the text decoder's, else the outermost."""
    return fields if fields.text("dtype") else outer


def _refuse_unreal(caches: tuple[CacheKind, ...], fields: Fields) -> None:
    storage = Storage(dtype="bf16", model_dtype="bf16")
    kept = [footprint for cache in caches for footprint in cache.footprints(storage)]
    if not any(one.record_bytes for one in kept):
        raise Refused(Fault(fields.at("num_hidden_layers"), "no layer of this model keeps a cache"))
    for per_token, most in ((True, _MOST_BYTES_PER_TOKEN), (False, _MOST_BYTES_OF_STATE)):
        if sum(one.record_bytes * one.layers for one in kept if isinstance(one.span, State | Ring) != per_token) > most:
            detail = f"the caches would take more than {most:,} bytes per {'token' if per_token else 'request'}"
            raise Refused(Fault(fields.at("num_hidden_layers"), detail))


def _figure(fields: Fields, name: str, value: int) -> Figure[int]:
    if name in fields.assumed:
        return Figure(value, f"class default of {fields.owner}", "medium")
    return Figure(value, f"{fields.called(name)} of the config.json", "high")


def _feed_forward_width(fields: Fields, feed_forwards: Sequence[FeedForward]) -> Figure[int] | None:
    """Class defaults that may say it are the shared experts' own width and the number of dense layers."""
    width = widest(feed_forwards)
    if width is None:
        return None
    assumed = sorted(name for name in _OF_FEED_FORWARDS if name in fields.assumed)
    source = "the widest feed-forward of the config.json"
    if not assumed:
        return Figure(width, source, "high")
    return Figure(width, f"{source}; class defaults of {fields.owner}: {', '.join(assumed)}", "medium")


def _provenance(fields: Fields) -> tuple[str, Confidence]:
    """Which class defaults stood in for fields, and what that makes of the confidence."""
    if not fields.assumed:
        return "", "high"
    listed = ", ".join(f"{name} {value}" for name, value in sorted(fields.assumed.items()))
    return f"; class defaults of {fields.owner}: {listed}", "medium"

"""The bundled catalog: strict, where its keys say, sound by every rule, with figures checked by hand written out."""

from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from service.capacity.cache import FullAttention, Storage
from service.capacity.dtypes import Scales
from service.capacity.engine import BlockRules, Engine, Padding
from service.capacity.figures import Figure
from service.capacity.gpu import Gpu, ReportedMemory, VisibleMemory
from service.capacity.model import Model, WeightPart
from service.catalog import integrity
from service.catalog.engine_integrity import engine_faults
from service.catalog.integrity import gpu_faults, model_faults
from tests.collected import collected, entries

DATA = Path(integrity.__file__).parent / "data"
COLLECTED: dict[str, str] = {
    entry["hf_id"]: entry["confidence"] for entry in entries("models", "models_2026", under="models")
}
Spec = TypeVar("Spec", Gpu, Model, Engine)


class EntryFile(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    source: str
    spec: msgspec.Raw


def entry_files(kind: str) -> dict[str, EntryFile]:
    """Every file of a kind by the key that its path spells."""
    folder = DATA / kind
    return {
        path.relative_to(folder).as_posix().removesuffix(".json"): msgspec.json.decode(
            path.read_bytes(), type=EntryFile
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def specs(kind: str, spec_type: type[Spec]) -> dict[str, Spec]:
    """Every entry of a kind, decoded strictly: a string is not a number, an unknown field is refused."""
    return {key: msgspec.json.decode(file.spec, type=spec_type) for key, file in entry_files(kind).items()}


GPUS = specs("gpus", Gpu)
MODELS = specs("models", Model)
ENGINES = specs("engines", Engine)


def per_token(key: str) -> int:
    storage = Storage(dtype="bf16", model_dtype="bf16")
    footprints = [footprint for cache in MODELS[key].caches.value for footprint in cache.footprints(storage)]
    return sum(footprint.layers * footprint.record_bytes for footprint in footprints)


def weight_bytes(parts: tuple[WeightPart, ...]) -> int:
    return sum(part.loaded_bytes("auto") for part in parts)


def weights(key: str) -> tuple[WeightPart, ...]:
    found = MODELS[key].weights
    assert found is not None
    return found.value


def reported(key: str) -> ReportedMemory:
    found = GPUS[key].reported_memory
    assert found is not None
    return found


def visible(key: str) -> VisibleMemory:
    found = GPUS[key].visible_memory
    assert found is not None
    return found


def figure(value: int, source: str = "written for this test") -> Figure[int]:
    return Figure(value, source, "high")


def rate(value: float) -> Figure[float]:
    return Figure(value, "written for this test", "high")


def test_the_catalog_has_so_many_entries_of_each_kind() -> None:
    assert (len(GPUS), len(MODELS)) == (65, 252)


@pytest.mark.parametrize("kind", ["gpus", "models", "engines", "workloads"])
def test_an_entry_has_the_key_that_its_path_spells(kind: str) -> None:
    assert {path: file.key for path, file in entry_files(kind).items() if file.key != path} == {}


@pytest.mark.parametrize("kind", ["gpus", "models", "engines", "workloads"])
def test_an_entry_says_in_one_line_where_it_is_from(kind: str) -> None:
    files = entry_files(kind).values()
    assert [file.key for file in files if not file.source.strip() or "\n" in file.source] == []


@pytest.mark.parametrize(
    ("kind", "spec_type"), [("gpus", Gpu), ("models", Model), ("engines", Engine)], ids=["gpus", "models", "engines"]
)
def test_an_entry_is_kept_in_the_normal_form(kind: str, spec_type: type[Gpu | Model | Engine]) -> None:
    # One form, so that a change of one figure is a change of one line: fields in the struct's order, an indent of 2.
    for key, file in entry_files(kind).items():
        spec = msgspec.json.decode(file.spec, type=spec_type)
        document = msgspec.json.encode(EntryFile(file.key, file.source, msgspec.Raw(msgspec.json.encode(spec))))
        assert (DATA / kind / f"{key}.json").read_bytes() == msgspec.json.format(document, indent=2) + b"\n"


def test_no_gpu_has_a_fault() -> None:
    assert [fault for key, spec in GPUS.items() for fault in gpu_faults(key, spec)] == []


def test_no_model_has_a_fault() -> None:
    assert [fault for key, spec in MODELS.items() for fault in model_faults(key, spec)] == []


def test_no_engine_has_a_fault() -> None:
    assert [fault for key, spec in ENGINES.items() for fault in engine_faults(key, spec)] == []


@collected
def test_every_collected_model_is_in_the_catalog_and_low_ones_are_marked() -> None:
    assert len(COLLECTED) == 222
    # The other 30 are checkpoints that only start-up logs name.
    assert len(MODELS.keys() - COLLECTED.keys()) == 30
    assert COLLECTED.keys() <= MODELS.keys()
    doubtful = {key for key, confidence in COLLECTED.items() if confidence == "low"}
    assert doubtful == {
        "mosaicml/mpt-30b",
        "mistralai/Mistral-Large-4-1T-A52B",
        "mistralai/Devstral-2-123B-Instruct-2512",
    }
    assert {MODELS[key].caches.confidence for key in doubtful} == {"low"}


def test_lfm3_has_the_layers_of_its_class_defaults_and_a_count_that_is_marked() -> None:
    model = MODELS["LiquidAI/LFM3-1.7B"]
    found = {str(type(cache).__name__): cache.at for cache in model.caches.value}
    # 2 convolutions, then attention and convolution by turns, every other attention layer with a window.
    assert found == {
        "ShortConvolution": ((0, 2, 1), (3, 24, 2)),
        "FullAttention": ((2, 23, 4),),
        "SlidingWindow": ((4, 21, 4),),
    }
    # 6 layers x 2 x 4 heads x 128 x 2 B; 13 x 2,048 x 6 x 2 B and 5 x 256 x 2,048 B a request.
    assert per_token("LiquidAI/LFM3-1.7B") - 5 * 2_048 - 13 * 24_576 == 12_288
    assert model.weights is not None
    assert model.weights.confidence == "low"


def test_longcat_2_has_two_latents_a_layer_and_index_keys_that_are_marked() -> None:
    model = MODELS["meituan-longcat/LongCat-2.0"]
    # 76 latents x (512 + 64) x 2 B, and 38 index keys of 128 B and a scale of 4.
    assert per_token("meituan-longcat/LongCat-2.0") == 87_552 + 5_016
    assert (model.caches.confidence, model.draft_caches) == ("low", None)
    assert "not published" in model.caches.source


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("meta-llama/Llama-3.1-70B-Instruct", 327_680),
        ("meta-llama/Llama-2-7b-hf", 524_288),
        ("Qwen/Qwen3-8B", 147_456),
        ("microsoft/phi-4", 204_800),
        ("tiiuae/falcon-7b", 8_192),
    ],
)
def test_a_token_takes_so_many_bytes_of_a_16_bit_cache(key: str, expected: int) -> None:
    assert per_token(key) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", FullAttention(layers=32, kv_heads=8, key_dim=128, value_dim=128)),
        ("microsoft/phi-4", FullAttention(layers=40, kv_heads=10, key_dim=128, value_dim=128)),
        ("tiiuae/falcon-7b", FullAttention(layers=32, kv_heads=1, key_dim=64, value_dim=64)),
    ],
)
def test_a_cache_counts_kv_heads_and_not_query_heads(key: str, expected: FullAttention) -> None:
    assert MODELS[key].caches.value == (expected,)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 14_336),
        ("meta-llama/Llama-3.1-70B-Instruct", 28_672),
        ("Qwen/Qwen3-14B", 17_408),
        ("Qwen/Qwen3-30B-A3B", 8 * 768),
        ("Qwen/Qwen3-235B-A22B", 8 * 1_536),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 10 * 512),
        ("Qwen/Qwen3.5-35B-A3B", 8 * 512),
        ("openai/gpt-oss-20b", 4 * 2_880),
        ("deepseek-ai/DeepSeek-V3", 18_432),  # its first layers; 8 experts x 2,048 are narrower
        ("deepseek-ai/DeepSeek-V4-Flash", 6 * 2_048),
        ("zai-org/GLM-4.5-Air", 8 * 1_408),  # its first layer has 10,944
        ("mistralai/Mixtral-8x7B-v0.1", 2 * 14_336),
        ("google/gemma-3-27b-it", 21_504),
        ("google/gemma-4-26B-A4B-it", 8 * 704),  # beside a dense network of 2,112
        ("google/gemma-4-E2B-it", 2 * 6_144),  # the layers that share caches are twice as wide
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8_192),  # no layer is dense, so none has 16,384
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 16_384),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 6 * 1_856),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 28_672),
        ("MiniMaxAI/MiniMax-M2", 8 * 1_536),
        ("ibm-granite/granite-4.0-h-small", 10 * 768),
        ("tiiuae/falcon-7b", 4 * 4_544),
    ],
)
def test_a_token_has_so_many_channels_inside_the_widest_feed_forward_layer(key: str, expected: int) -> None:
    width = MODELS[key].feed_forward_width
    assert width is not None
    assert width.value == expected


def test_the_width_is_unknown_where_nobody_has_published_it() -> None:
    # Of the first no source has the width of an expert; the second's blocks have widths of their own.
    without = [key for key, spec in MODELS.items() if spec.feed_forward_width is None]
    assert without == ["meituan-longcat/LongCat-2.0", "nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B-BF16"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("h100-sxm-80gb", 85_520_809_984),  # 81,559 MiB
        ("a100-sxm-80gb", 81_920 * 2**20),
        ("t4", 15_360 * 2**20),
        ("mi300x", 206_141_652_992),
        ("mi250x", 65_520 * 2**20),  # of one of its two devices
        ("tpu-v7", 96 * 2**30),  # the same
        ("tpu-v5e", 16_000_000_000),  # nothing better is known than 16 GB: the smaller reading
    ],
)
def test_a_card_reports_so_many_bytes(key: str, expected: int) -> None:
    assert reported(key).bytes.value == expected


def test_cards_of_two_devices_are_the_two_that_are_known() -> None:
    assert {key for key, spec in GPUS.items() if spec.devices_per_package != 1} == {"mi250x", "tpu-v7"}


def test_a_card_whose_sources_conflict_has_no_reported_memory() -> None:
    assert {key for key, spec in GPUS.items() if spec.reported_memory is None} == {"mi308x"}


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        ("h200-sxm-141gb", "139.80 GiB"),
        ("b200-sxm", "178.36 GiB"),
        ("h100-sxm-80gb", "79.18 GiB"),
        ("h100-pcie-80gb", "81008 MiB"),
        ("a100-sxm-40gb", "39.38 GiB"),
        ("a100-sxm-80gb", "79.15 GiB"),
        ("l4", "22.16 GiB"),
        ("t4", "14.74 GiB"),
        ("rtx-3090", "23.58 GiB"),
        ("rtx-3090-ti", "24112 MiB"),
        ("rtx-4090", "23.63 GiB"),
        ("rtx-5090", "31.36 GiB"),
        ("rtx-5090-laptop", "22.36 GiB"),
        ("rtx-pro-4500-blackwell", "31.38 GiB"),
        ("rtx-5000-ada", "31.5 GiB"),
        ("rtx-a5000", "23.6 GiB"),
        ("rtx-4060", "8188 MiB"),  # printed as 8.00 GiB
        ("mi300x", "196592 MiB"),  # printed as 191.98 GiB
        ("radeon-ai-pro-r9700", "31.86 GiB"),
        ("gb10", "121.69 GiB"),
        ("jetson-agx-thor", "122.82 GiB"),
    ],
)
def test_a_process_sees_so_many_bytes_of_a_card(key: str, printed: str) -> None:
    number, unit = printed.split()
    assert visible(key).bytes.value == int(Decimal(number) * {"GiB": 2**30, "MiB": 2**20}[unit])
    assert visible(key).certainty == "measured"


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("h100-sxm-80gb", "79.095", "79.335"),  # 79.10 to 79.33 were printed, each to 0.01
        ("h200-sxm-141gb", "139.715", "139.815"),
        ("a100-sxm-40gb", "39.375", "39.565"),
        ("rtx-5000-ada", "31.45", "31.55"),  # one figure, to 0.1
    ],
)
def test_cards_of_one_name_spread_over_what_was_printed_of_them(key: str, low: str, high: str) -> None:
    assert visible(key).low == int(Decimal(low) * 2**30)
    assert visible(key).high == int(Decimal(high) * 2**30)


def test_a_figure_printed_of_the_card_comes_before_one_worked_out_from_its_driver() -> None:
    # By driver and reserve: 23,028 - 305 = 22,723 MiB; a log of a card of this name says 22.06 GiB.
    assert visible("a10g").bytes.value == int(Decimal("22.06") * 2**30) < 22_723 * 2**20


def test_a_measured_reserve_comes_before_the_usual_share() -> None:
    # No log of this card: 143,771 MiB less the 606 of its sister, and not less 0.6 %, 862 MiB.
    assert visible("h200-nvl-141gb").bytes.value == 143_165 * 2**20
    assert visible("h200-nvl-141gb").certainty == "assumed"


def test_a_card_that_nobody_has_looked_at_shows_its_drivers_figure_less_0_6_percent() -> None:
    assert visible("gaudi3").bytes.value == 131_072 * 2**20 * 994 // 1000
    assert visible("gaudi3").low == 131_072 * 2**20 * 990 // 1000
    assert visible("gaudi3").high == 131_072 * 2**20 * 997 // 1000


def test_no_figure_under_windows_stands_for_what_linux_shows() -> None:
    # There nothing is subtracted: 23.99 GiB of an RTX 4090, 31.84 of an RTX 5090.
    assert visible("rtx-4090").high < 23.7 * 2**30
    assert visible("rtx-5090").high < 31.5 * 2**30


def test_what_shares_its_memory_with_the_host_says_so() -> None:
    unified = {key for key, spec in GPUS.items() if spec.notes and spec.notes.startswith("Unified memory, shared")}
    assert unified == {"gb10", "jetson-agx-thor"}


def test_every_word_for_cards_with_small_defaults_names_one() -> None:
    defaults = [default for spec in ENGINES.values() for default in (spec.max_num_batched_tokens, spec.max_num_seqs)]
    words = {word for default in defaults if default is not None for word in default.value.small_too}
    assert words == {"A100", "GB10", "Thor"}
    assert [word for word in words if not any(word in spec.name for spec in GPUS.values())] == []


def test_a_model_without_a_parameter_count_has_no_weights() -> None:
    # The first has unknown widths, of the others nobody has said how much is kept in which format.
    assert {key for key, spec in MODELS.items() if spec.weights is None} == {
        "mistralai/Devstral-2-123B-Instruct-2512",
        "deepseek-ai/DeepSeek-V4.1-Flash",
        "meta-models/Muse-Spark-Open-816B-A42B",
        "mistralai/Mistral-Large-4-1T-A52B",
        "moonshotai/Kimi-K3",
        "thinkingmachines/Inkling-2-Small-MXFP8",
    }


def test_the_weights_of_llama_3_1_8b_are_two_bytes_a_parameter() -> None:
    assert weight_bytes(weights("meta-llama/Llama-3.1-8B-Instruct")) == 16_060_522_496


def test_a_tied_head_is_counted_once() -> None:
    # The stored checkpoint has a copy of the embeddings of 155,582,464 parameters more, which engines don't load.
    assert weight_bytes(weights("Qwen/Qwen3-0.6B")) == 1_192_099_840


def test_a_vision_tower_is_part_of_the_weights_and_stays_in_16_bit() -> None:
    *decoder, tower = weights("Qwen/Qwen3-VL-8B-Instruct")
    assert sum(part.parameters for part in decoder) == 8_190_735_360
    assert tower == WeightPart(
        "vision tower and projector",
        576_388_336,
        "bf16",
        follows_weight_dtype=False,
        stage="first",
        needed="multimodal",
    )


def test_an_fp8_checkpoint_keeps_embeddings_head_and_scales_wider() -> None:
    parts = {part.name: part for part in weights("Qwen/Qwen3-235B-A22B-FP8")}
    in_8_bits = [part for part in parts.values() if part.dtype == "fp8"]
    assert sum(part.parameters for part in in_8_bits) == 233_798_893_568
    # 94 layers of 128 experts of 3 x 4,096 x 1,536, which expert parallel can divide.
    assert (parts["experts"].parameters, parts["experts"].experts) == (94 * 128 * 3 * 4096 * 1536, 128)
    assert {part.scales for part in in_8_bits} == {Scales(32, 128 * 128)}
    assert sum(part.parameters for part in parts.values() if part.dtype == "bf16") == 1_294_740_992
    # One byte a number, two for what stays in 16 bits, and 14,269,952 block scales of 4 bytes.
    assert weight_bytes(weights("Qwen/Qwen3-235B-A22B-FP8")) == 233_798_893_568 + 2 * 1_294_740_992 + 4 * 14_269_952


@pytest.mark.parametrize(
    ("key", "layers", "experts"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", 1, 256 * 3 * 4096 * 2048),
        ("deepseek-ai/DeepSeek-V4-Flash-0731", 3, 256 * 3 * 4096 * 2048),
        ("deepseek-ai/DeepSeek-V4-Pro", 1, 384 * 3 * 7168 * 3072),
        ("deepseek-ai/DeepSeek-V4-Pro-0813", 3, 384 * 3 * 7168 * 3072),
    ],
)
def test_draft_layers_of_deepseek_v4_have_experts_in_4_bits_too(key: str, layers: int, experts: int) -> None:
    parts = {part.name: part for part in weights(key)}
    drafting = parts["experts of draft layers"]
    assert (drafting.parameters, drafting.dtype, drafting.needed) == (layers * experts, "mxfp4", "drafting")
    assert drafting.experts == parts["experts"].experts
    # What is left of the published total is attention and projections of the draft.
    (rest,) = [part for part in weights(key) if part.needed == "drafting" and part is not drafting]
    assert 0 < rest.parameters < experts / 10


def test_llama_405b_in_fp8_keeps_its_attention_in_16_bit() -> None:
    assert weight_bytes(weights("meta-llama/Llama-3.1-405B-Instruct-FP8")) == 487_229_259_776


@pytest.mark.parametrize(
    ("key", "published_gib"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 14.96),
        ("meta-llama/Llama-3.3-70B-Instruct", 131.42),
        ("microsoft/Phi-3.5-mini-instruct", 7.12),
        ("microsoft/Phi-4-mini-instruct", 7.15),
        ("microsoft/phi-4", 27.31),
        ("mistralai/Ministral-3-3B-Instruct-2512", 4.35),
        ("mistralai/Mistral-7B-Instruct-v0.3", 13.5),
    ],
)
def test_weights_agree_with_the_published_size_of_the_checkpoint(key: str, published_gib: float) -> None:
    assert weight_bytes(weights(key)) / 2**30 == pytest.approx(published_gib, rel=0.001)


def rules(minor: int) -> BlockRules:
    found = ENGINES[f"vllm@0.{minor}"].block_rules
    assert found is not None
    return found


def test_releases_of_vllm_before_its_new_engine_keep_no_null_block() -> None:
    # Llama 405B in 0.5.3: refused above 79,392 tokens, which are all of its 4,962 blocks.
    assert [minor for minor in range(6, 34) if not rules(minor).null_block] == [6, 7]


def test_a_release_without_kernels_for_latents_has_no_blocks_of_theirs() -> None:
    # DeepSeek-V2-Lite on an H100: 5,373 blocks of 16 tokens in 35.42 GiB.
    assert [minor for minor in range(6, 34) if rules(minor).latents_as_heads] == [6]
    assert rules(6).latent_block_size == {}


def test_blocks_of_latents_beside_states_are_multiples_of_64_in_older_releases_and_of_128_in_newer() -> None:
    # Kimi-Linear on two RTX 3090 in 0.11: 75,840 tokens, a fourth of whose blocks are 79 of 960.
    assert {minor: rules(minor).latent_alignment for minor in range(6, 34)} == {
        minor: 64 if minor <= 16 else 128 for minor in range(6, 34)
    }


# Below: every rule of service/catalog/integrity.py, each with an entry that breaks it and nothing else.

H100 = GPUS["h100-sxm-80gb"]
LLAMA = MODELS["meta-llama/Llama-3.1-8B-Instruct"]
GENERIC = ENGINES["generic"]


@pytest.mark.parametrize("key", ["H100 SXM", "h100_sxm", "nvidia/h100", ""])
def test_a_gpu_key_of_another_form_is_a_fault(key: str) -> None:
    assert gpu_faults(key, H100) == [f"key {key!r}: the form is small letters, digits, dots and dashes"]


@pytest.mark.parametrize("key", ["Llama-3.1-8B", "meta-llama/", "a/b/c", "meta llama/x", "../x"])
def test_a_model_key_without_owner_and_name_is_a_fault(key: str) -> None:
    assert model_faults(key, LLAMA) == [f"key {key!r}: the form is owner/name"]


@pytest.mark.parametrize("key", ["vLLM", "vllm@", "@0.19", "vllm@0.19@1"])
def test_an_engine_key_of_another_form_is_a_fault(key: str) -> None:
    assert engine_faults(key, GENERIC) == [f"key {key!r}: the form is name or name@release"]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_figure_that_is_not_positive_is_a_fault(value: float) -> None:
    broken = msgspec.structs.replace(H100, memory_bandwidth_gb_s=rate(value))
    assert gpu_faults("x", broken) == [
        f"memory_bandwidth_gb_s: {value} is not positive; what isn't known is null",
    ]


def test_an_infinite_figure_is_a_fault() -> None:
    broken = msgspec.structs.replace(H100, memory_bandwidth_gb_s=rate(float("inf")))
    assert gpu_faults("x", broken) == ["memory_bandwidth_gb_s: inf is no measure"]


def test_a_window_of_no_tokens_is_a_fault() -> None:
    broken = msgspec.structs.replace(LLAMA, max_position_embeddings=figure(0))
    assert model_faults("a/b", broken) == [
        "max_position_embeddings: 0 is not positive; what isn't known is null",
    ]


def test_an_engine_may_keep_nothing_back_and_no_less_than_nothing() -> None:
    assert engine_faults("x", msgspec.structs.replace(GENERIC, reserve_bytes=figure(0))) == []
    assert engine_faults("x", msgspec.structs.replace(GENERIC, reserve_bytes=figure(-1))) == [
        "reserve_bytes: -1 is not positive; what isn't known is null",
    ]


def test_a_utilisation_in_percent_is_a_fault() -> None:
    assert engine_faults("x", msgspec.structs.replace(GENERIC, gpu_memory_utilization=rate(90.0))) == [
        "gpu_memory_utilization: a share of the reported memory is at most 1, not a percentage",
    ]


@pytest.mark.parametrize("source", ["", "  ", "one line\nand another"])
def test_a_figure_without_a_source_of_one_line_is_a_fault(source: str) -> None:
    broken = msgspec.structs.replace(H100, tdp_w=figure(700, source))
    assert gpu_faults("x", broken) == ["tdp_w: a source is one line that isn't empty"]


def test_the_source_of_the_reported_memory_is_looked_at_too() -> None:
    memory = ReportedMemory(figure(85_520_809_984, ""), "nvidia-smi total", "measured")
    broken = msgspec.structs.replace(H100, reported_memory=memory)
    assert gpu_faults("x", broken) == ["reported_memory.bytes: a source is one line that isn't empty"]


def test_a_recalled_figure_that_claims_confidence_is_a_fault() -> None:
    broken = msgspec.structs.replace(H100, tdp_w=figure(700, "datasheet, recalled"))
    assert gpu_faults("x", broken) == [
        "tdp_w: the source is unsure (datasheet, recalled), so the confidence is low",
    ]


@pytest.mark.parametrize(
    "reported_bytes",
    [80, 81_559, 81_559 * 1024, 2 * 85_520_809_984, 71_000_000_000],
    ids=["gigabytes", "MiB", "KiB", "two devices", "after a share was taken"],
)
def test_a_reported_memory_far_from_the_nominal_size_is_a_fault(reported_bytes: int) -> None:
    memory = ReportedMemory(figure(reported_bytes), "nvidia-smi total", "measured")
    seen = VisibleMemory(figure(reported_bytes), reported_bytes, reported_bytes, "measured")
    broken = msgspec.structs.replace(H100, reported_memory=memory, visible_memory=seen)
    assert gpu_faults("x", broken) == [
        f"reported_memory.bytes: {reported_bytes} x 1 device(s) is not 0.9 to 1.08 times the nominal 80 GB",
    ]


def test_the_memory_of_a_device_is_compared_by_the_package() -> None:
    broken = msgspec.structs.replace(GPUS["mi250x"], devices_per_package=1)
    assert gpu_faults("x", broken) == [
        "reported_memory.bytes: 68702699520 x 1 device(s) is not 0.9 to 1.08 times the nominal 128 GB",
    ]


def test_a_package_without_devices_is_a_fault() -> None:
    broken = msgspec.structs.replace(GPUS["mi308x"], devices_per_package=0)
    assert gpu_faults("x", broken) == ["devices_per_package: 0 is not positive"]


def test_an_assumed_memory_that_claims_confidence_is_a_fault() -> None:
    memory = ReportedMemory(figure(85_520_809_984), "nominal size", "assumed")
    broken = msgspec.structs.replace(H100, reported_memory=memory)
    assert gpu_faults("x", broken) == ["reported_memory.bytes: no card printed it, so the confidence is low"]


def with_visible(key: str = "h100-sxm-80gb", **changes: object) -> Gpu:
    return msgspec.structs.replace(GPUS[key], visible_memory=msgspec.structs.replace(visible(key), **changes))


@pytest.mark.parametrize("value", [84_927_609_568, 85_185_307_608])
def test_a_visible_memory_outside_its_own_range_is_a_fault(value: int) -> None:
    assert gpu_faults("x", with_visible(bytes=figure(value))) == [
        f"visible_memory.bytes: {value} is not from low, 84927609569, to high, 85185307607",
    ]


def test_a_process_sees_no_more_than_the_driver() -> None:
    assert gpu_faults("x", with_visible(high=85_520_809_984)) == []
    assert gpu_faults("x", with_visible(high=85_520_809_985)) == [
        "visible_memory.high: 85520809985 is more than the reported 85520809984",
    ]


@pytest.mark.parametrize("low", [79, 81_008, 76_900_000_000], ids=["GiB", "MiB", "after a share was taken"])
def test_a_visible_memory_far_below_the_reported_one_is_a_fault(low: int) -> None:
    assert gpu_faults("x", with_visible(low=low)) == [
        f"visible_memory.low: {low} is under 0.9 times the reported 85520809984",
    ]


def test_an_assumed_visible_memory_that_claims_confidence_is_a_fault() -> None:
    assert gpu_faults("x", with_visible(certainty="assumed")) == [
        "visible_memory.bytes: no card printed it, so the confidence is low",
    ]


def test_the_source_of_the_visible_memory_is_looked_at_too() -> None:
    recalled = Figure(visible("h100-sxm-80gb").bytes.value, "recalled", "high")
    assert gpu_faults("x", with_visible(bytes=recalled)) == [
        "visible_memory.bytes: the source is unsure (recalled), so the confidence is low",
    ]


def test_either_both_memories_are_known_or_none() -> None:
    fault = "visible_memory: it is null exactly where reported_memory is"
    assert gpu_faults("x", msgspec.structs.replace(H100, visible_memory=None)) == [fault]
    assert gpu_faults("x", msgspec.structs.replace(H100, reported_memory=None)) == [fault]


def test_a_sparse_fp8_rate_among_dense_ones_is_a_fault() -> None:
    broken = msgspec.structs.replace(H100, dense_fp8_tflops=rate(3958.0))
    assert gpu_faults("x", broken) == [
        "dense_fp8_tflops: 3958.0 is over 2.1 x 989.5, the wider dense rate, as a sparse figure would be",
    ]


@pytest.mark.parametrize(
    ("name", "count"), [("dense_fp8_tflops", 23), ("dense_int8_tops", 34), ("dense_fp4_tflops", 7)]
)
def test_a_sparse_rate_among_the_dense_ones_of_any_nvidia_card_is_a_fault(name: str, count: int) -> None:
    cards = {key: spec for key, spec in GPUS.items() if spec.vendor == "NVIDIA" and getattr(spec, name) is not None}
    assert len(cards) == count
    for key, spec in cards.items():
        doubled = msgspec.structs.replace(spec, **{name: rate(2 * getattr(spec, name).value)})
        assert any(fault.startswith(name) for fault in gpu_faults(key, doubled)), key


def test_a_card_that_only_converts_fp8_is_no_faster_in_it() -> None:
    broken = msgspec.structs.replace(H100, fp8_native=False)
    assert gpu_faults("x", broken) == [
        "dense_fp8_tflops: 1979.0 is over 1.0 x 989.5, the wider dense rate, as a sparse figure would be",
    ]


def test_a_model_that_caches_nothing_is_a_fault() -> None:
    broken = msgspec.structs.replace(LLAMA, caches=Figure((), "written for this test", "high"))
    assert model_faults("a/b", broken) == ["caches: a model that caches nothing can't be planned"]


def test_a_cache_without_layers_is_a_fault() -> None:
    caches = (FullAttention(layers=0, kv_heads=8, key_dim=128, value_dim=128),)
    broken = msgspec.structs.replace(LLAMA, caches=Figure(caches, "written for this test", "high"))
    assert model_faults("a/b", broken) == [
        "caches: layers of full is 0",
    ]


@pytest.mark.parametrize("kv_heads", [7, 64])
def test_kv_heads_that_do_not_divide_the_query_heads_are_a_fault(kv_heads: int) -> None:
    caches = (FullAttention(layers=32, kv_heads=kv_heads, key_dim=128, value_dim=128),)
    broken = msgspec.structs.replace(LLAMA, caches=Figure(caches, "written for this test", "high"))
    assert model_faults("a/b", broken) == [f"caches: {kv_heads} KV heads don't divide 32 query heads"]


@pytest.mark.parametrize("width", [1_536, 2_047, 64 * 4_096 + 1])
def test_a_feed_forward_layer_as_narrow_as_one_expert_or_far_too_wide_is_a_fault(width: int) -> None:
    broken = msgspec.structs.replace(LLAMA, feed_forward_width=figure(width))
    assert model_faults("a/b", broken) == [
        f"feed_forward_width: {width} is not 0.5 to 64 times the hidden size, 4096",
    ]


def test_parameters_in_billions_are_a_fault() -> None:
    broken = msgspec.structs.replace(LLAMA, parameters=figure(8))
    assert model_faults("a/b", broken) == ["parameters: 8 is less than the embeddings alone, 525336576"]


def test_weights_that_miss_parameters_are_a_fault() -> None:
    parts = (WeightPart("text decoder", 7_000_000_000, "bf16", follows_weight_dtype=True),)
    broken = msgspec.structs.replace(LLAMA, weights=Figure(parts, "written for this test", "high"))
    assert model_faults("a/b", broken) == [
        "weights: the parts have 7000000000 parameters, the text decoder 8030261248",
    ]


def test_an_empty_part_of_the_weights_is_a_fault() -> None:
    parts = (*weights("meta-llama/Llama-3.1-8B-Instruct"), WeightPart("tower", 0, "bf16", follows_weight_dtype=False))
    broken = msgspec.structs.replace(LLAMA, weights=Figure(parts, "written for this test", "high"))
    assert model_faults("a/b", broken) == ["weights: every part has parameters"]


def test_two_parts_of_the_same_name_are_a_fault() -> None:
    parts = weights("meta-llama/Llama-3.1-8B-Instruct") * 2
    broken = msgspec.structs.replace(LLAMA, weights=Figure(parts, "written for this test", "high"))
    assert model_faults("a/b", broken) == ["weights: two parts have the same name"]


@pytest.mark.parametrize("scales", [Scales(0, 64), Scales(16, 0)])
def test_scales_of_no_bits_or_for_no_numbers_are_a_fault(scales: Scales) -> None:
    whole = WeightPart("text decoder", 8_030_261_248, "int4", follows_weight_dtype=True, scales=scales)
    broken = msgspec.structs.replace(LLAMA, weights=Figure((whole,), "written for this test", "high"))
    assert model_faults("a/b", broken) == ["weights: scales are bits for so many numbers, both at least 1"]


def test_an_expert_without_a_width_is_a_fault() -> None:
    whole = WeightPart("text decoder", 8_030_261_248, "mxfp4", follows_weight_dtype=True, expert_shape=(4096, 0))
    broken = msgspec.structs.replace(LLAMA, weights=Figure((whole,), "written for this test", "high"))
    assert model_faults("a/b", broken) == ["weights: the sides of an expert are at least 1"]


@pytest.mark.parametrize(
    ("padding", "source", "fault"),
    [
        (Padding(hidden=256, width=0), "written for this test", "mxfp4 is padded to multiples of at least 1"),
        (Padding(hidden=256, width=128, width_on={"9": 0}), "x", "mxfp4 is padded to multiples of at least 1"),
        (Padding(hidden=256, width=128), " ", "mxfp4 needs a source of one line"),
    ],
)
def test_padding_to_nothing_or_without_a_source_is_a_fault(padding: Padding, source: str, fault: str) -> None:
    broken = msgspec.structs.replace(GENERIC, padded_formats={"mxfp4": Figure(padding, source, "high")})
    assert engine_faults("x", broken) == [f"padded_formats: {fault}"]

"""Levers that a start-up log states otherwise than the question, or that the question has no name for."""

import re
from collections.abc import Iterator
from decimal import Decimal

from service.capacity.question import Question
from service.capacity.reserve_kinds import cache_family, has_experts, has_tower
from service.errors import Fault
from service.readers.observation import Reading
from service.readers.start_up_log.facts import Deployment, Memory, Pool, StartUpLog
from service.readers.start_up_log.printed import Seen, Value

LEVERS = (
    "max_model_len",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "decode_context_parallel",
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "speculative_tokens",
    "enforce_eager",
)
"""Levers that logs state under the same name, in the same numbers."""

_OF_RANKS = {
    "TP": "tensor_parallel",
    "PP": "pipeline_parallel",
    "DP": "data_parallel",
    "DCP": "decode_context_parallel",
    "EP": "expert_parallel",
    "rank": "tensor_parallel",
}
"""The lever that a rank is numbered by. Ranks without letters are those of all stages."""

_UNPLANNED = (
    ("hf_overrides", "/model", "fields of its configuration were written over"),
    ("skip_mm_profiling", "/levers", "the largest input of a tower wasn't profiled"),
    ("redundant_experts", "/levers/expert_parallel", "some experts were there more than once"),
)
"""Switches that change what is loaded or profiled."""

_LIMIT = re.compile(r"['\"]?[a-z_]{1,20}['\"]?\s?[:=]\s?([0-9]{1,6})")


def contradicted_levers(question: Question, reading: Reading, log: StartUpLog) -> Iterator[Fault]:
    """List each lever that was another, with the line that says so."""
    told = log.deployment
    yield from _same_names(question, told)
    yield from _share(question, told)
    yield from _loras(question, told)
    yield from _cache_by_hand(question, reading, log)
    yield from _towers(question, told)
    yield from _without_lever(told)
    yield from _ranks(question, log)
    yield from _windows(question, log)


def _same_names(question: Question, told: Deployment) -> Iterator[Fault]:
    levers = question.levers
    for name in LEVERS:
        seen, here = getattr(told, name), getattr(levers, name)
        # Null: the engine has no default, and nothing is predicted from it.
        if seen is None or here is None or seen.value == here:
            continue
        if name != "expert_parallel" or _divides_experts(question):
            yield _otherwise(name, seen, here)
    drafts = told.speculative
    if drafts is not None and told.speculative_tokens is None and not levers.speculative_tokens:
        yield Fault("/levers/speculative_tokens", f"tokens were drafted (line {drafts.line}), and none are here")
    caching = told.enable_prefix_caching
    if caching is not None and cache_family(question.model.spec.caches.value) == "state":
        asked_for = levers.enable_prefix_caching
        if caching.value != asked_for:
            yield _otherwise("enable_prefix_caching", caching, asked_for)


def _divides_experts(question: Question) -> bool:
    """Whether there are experts, and ranks to divide them over."""
    levers = question.levers
    return has_experts(question.model.spec) and levers.tensor_parallel * levers.data_parallel > 1


def _share(question: Question, told: Deployment) -> Iterator[Fault]:
    levers, share = question.levers, told.memory_fraction
    if share is None or levers.kv_cache_memory_bytes is not None:
        return
    asked = Decimal(repr(levers.gpu_memory_utilization))
    # Some engines print the nearest number in 32 bits.
    if abs(share.value - asked) > Decimal("0.00005"):
        yield _otherwise("gpu_memory_utilization", share, asked)


def _loras(question: Question, told: Deployment) -> Iterator[Fault]:
    on, slots = told.enable_lora, question.levers.max_loras
    if on is None or not (on.value or slots):
        return
    if not (on.value and slots):
        was, here = ("on", "are no slots") if on.value else ("off", f"are {slots} slots")
        yield Fault("/levers/max_loras", f"LoRA was {was} (line {on.line}), and there {here} here")
        return
    for name in ("max_loras", "max_lora_rank"):
        seen, asked = getattr(told, name), getattr(question.levers, name)
        if seen is not None and seen.value != asked:
            yield _otherwise(name, seen, asked)


def _cache_by_hand(question: Question, reading: Reading, log: StartUpLog) -> Iterator[Fault]:
    """The bytes of the cache in an argument, or rounded in the line that says that nothing was profiled."""
    place = "/levers/kv_cache_memory_bytes"
    told, here = log.deployment.kv_cache_memory_bytes, question.levers.kv_cache_memory_bytes
    by_hand = told or log.cache_set_by_hand
    if by_hand is None:
        return
    printed = reading.observed.kv_budget
    if here is None:
        yield Fault(place, f"the cache was set by hand (line {by_hand.line}), and is what a share leaves here")
    elif told is not None:
        if told.value != here:
            yield _otherwise("kv_cache_memory_bytes", told, here)
    elif printed is not None and not printed.low <= here <= printed.high:
        yield Fault(place, f"it was about {printed.best:,} (line {by_hand.line}), and is {here:,} here")


def _towers(question: Question, told: Deployment) -> Iterator[Fault]:
    """Whether images are let in: without them neither a tower nor its largest input is counted."""
    place, here = "/levers/language_model_only", question.levers.language_model_only
    if not has_tower(question.model.spec):
        return
    only, limit = told.language_model_only, told.limit_mm_per_prompt
    if only is not None and only.value != here:
        yield _otherwise("language_model_only", only, here)
    if limit is None or (only is not None and only.value):
        return
    counts = [int(count) for count in _LIMIT.findall(limit.value)]
    if counts and any(counts) == here:
        was = "some" if here else "no"
        yield Fault(place, f"{was} inputs of a tower were let in (limit_mm_per_prompt, line {limit.line})")
    elif 0 in counts and any(counts):
        yield Fault(place, f"some inputs of a tower weren't let in (line {limit.line}), which no lever plans")


def _without_lever(told: Deployment) -> Iterator[Fault]:
    dummy = told.load_format
    if dummy is not None and dummy.value.rpartition(".")[2].casefold() == "dummy":
        yield Fault("/model", f"no checkpoint was loaded (load_format dummy, line {dummy.line}), which no lever plans")
    for name, place, what in _UNPLANNED:
        seen = getattr(told, name)
        if seen is not None and seen.value:
            yield Fault(place, f"{what} ({name}, line {seen.line}), which no lever plans")
    kept = told.cpu_offload_gb
    if kept is not None and kept.value > 0:
        detail = f"{kept.value} GiB of weights stayed in the host's memory (cpu_offload_gb, line {kept.line})"
        yield Fault("/levers", f"{detail}, which no lever plans")
    limit = told.kv_cache_limit
    if limit is not None:
        detail = f"the cache was limited by hand to {limit.value:,} blocks or tokens (line {limit.line})"
        yield Fault("/levers/kv_cache_memory_bytes", f"{detail}, which no lever plans")


def _ranks(question: Question, log: StartUpLog) -> Iterator[Fault]:
    """Ranks that a line is of and the question doesn't have, where no argument states how many there were."""
    told, levers = log.deployment, question.levers
    here = {lever: getattr(levers, lever) for lever in _OF_RANKS.values()}
    # Of how many, the prefix says.
    here["expert_parallel"] = 10**6 if levers.expert_parallel or not _divides_experts(question) else 0
    highest: dict[str, tuple[int, str, int]] = {}
    for rank, line in _ranks_of(log):
        for name, number in _numbered(rank):
            if name not in highest or highest[name][0] < number:
                highest[name] = (number, rank, line)
    for name, (number, rank, line) in highest.items():
        lever = _OF_RANKS[name]
        stages = levers.pipeline_parallel if name == "rank" else 1
        if getattr(told, lever) is None and number >= here[lever] * stages:
            yield Fault(f"/levers/{lever}", f"line {line} is of {rank}, which there isn't here")


def _ranks_of(log: StartUpLog) -> Iterator[tuple[str, int]]:
    memory, pool = log.memory, log.pool
    amounts = (seen for name in Memory.__struct_fields__ for seen in getattr(memory, name))
    counts = (seen for name in Pool.__struct_fields__ for seen in getattr(pool, name))
    for one in (*amounts, *counts, *log.failures):
        if one.rank is not None:
            yield one.rank, one.line


def _numbered(rank: str) -> Iterator[tuple[str, int]]:
    """Take apart `DP0_TP3`, `DP0 TP3` and `rank=3`; a process or a GPU has a number that says nothing."""
    for part in rank.replace("_", " ").replace("=", "").split(" "):
        name = part.rstrip("0123456789")
        if name in _OF_RANKS and name != part:
            yield name, int(part[len(name) :])


def _windows(question: Question, log: StartUpLog) -> Iterator[Fault]:
    """The window in the lines of the concurrency and of a refusal, where no argument states it."""
    if log.deployment.max_model_len is not None:
        return
    here = question.levers.max_model_len
    told = [(seen.value.max_model_len, seen.line) for seen in log.concurrencies]
    told += [(one.max_model_len, one.line) for one in log.failures if one.max_model_len is not None]
    for window, line in told:
        if window != here:
            yield Fault("/levers/max_model_len", f"it was {window} (line {line}), and is {here} here")
            return


def _otherwise(name: str, seen: Seen[Value], here: object) -> Fault:
    return Fault(f"/levers/{name}", f"it was {seen.value} (line {seen.line}), and is {here} here")

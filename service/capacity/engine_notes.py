"""What an answer says unasked of the engine that was named: what its memory fraction holds, and what it doesn't."""

from service.capacity.answer import Assumed, Caveat
from service.capacity.budget import Budget
from service.capacity.cache import GatedDeltaNet
from service.capacity.question import Question
from service.capacity.reserve_kinds import has_tower, shared_graphs, tower_of
from service.capacity.reserve_rules import HeldBack, Measured, Profiled
from service.capacity.units import exact, shown_gib

_UNPROFILED = 1_503_238_554
"""1.40 GiB: a start-up on a card of 32 GB took 1.37 GiB more than it had profiled."""
_UNPROFILED_SHARE = 20
"""Of smaller cards a twentieth: one of 24 GB started with 3 % outside of the fraction, and not with 2 %."""


def caveats_of_engine(question: Question, budget: Budget) -> list[Caveat]:
    """List what the reserve's rule leaves open; nothing where the size of the cache is given, or a reserve is flat."""
    if question.levers.kv_cache_memory_bytes is not None:
        return []
    match question.engine.spec.reserve_rule:
        case Profiled() as rule:
            return [
                *_of_graphs(question, rule, budget),
                *_of_what_is_left_over(question, budget),
                *_of_towers(question, rule),
                *_of_states(question, rule),
            ]
        case HeldBack():
            return _of_two_sides(question, budget)
        case Measured() | None:
            return []


def assumed_of_engine(question: Question, budget: Budget) -> list[Assumed]:
    """List which memory the engine sees, what its rule keeps back, and where its CUDA graphs are."""
    engine, levers = question.engine, question.levers
    memory, reserve = budget.rungs[0], budget.rungs[3]
    found = []
    if engine.spec.memory == "visible":
        reason = f"{engine.key} sees what CUDA or ROCm shows a process, not what the driver reports: {memory.source}"
        found.append(Assumed("visible_memory", str(memory.value), reason))
    constant = next((one.source for one in reserve.operands if one.name == "overhead_bytes"), None)
    # Nothing is assumed of a reserve that was given or observed: the rule had no say in it.
    if constant is None or levers.kv_cache_memory_bytes is not None:
        return found
    reason = f"by the rule of {engine.key}, from {reserve.low:,} to {reserve.high:,}; its constant: {constant}"
    found.append(Assumed("reserve_bytes", str(reserve.value - levers.other_process_bytes), reason))
    graphs = _graphs(question)
    return found if graphs is None else [*found, graphs]


def _graphs(question: Question) -> Assumed | None:
    """Where CUDA graphs are captured; null where they are left out, or part of what was measured."""
    key, rule = question.engine.key, question.engine.spec.reserve_rule
    if question.levers.enforce_eager:
        return None
    match rule:
        case Profiled(graph_bytes=None):
            reason = f"{key} captures them after the cache is sized, out of what the memory fraction leaves"
            return Assumed("cuda_graphs", "outside of the budget", reason)
        case Profiled(graph_bytes=figure) if figure is not None:
            return Assumed("cuda_graphs", f"{figure.value} of the reserve", f"{key}: {figure.source}")
        case HeldBack():
            reason = f"{key} captures them out of what the memory fraction leaves, and gives nothing of it back"
            return Assumed("cuda_graphs", "outside of the budget", reason)
        case _:
            return None


def _of_graphs(question: Question, rule: Profiled, budget: Budget) -> list[Caveat]:
    levers, key = question.levers, question.engine.key
    memory, share = budget.rungs[0].value, levers.gpu_memory_utilization
    if levers.enforce_eager:
        return []
    if rule.graph_bytes is None:
        text = (
            f"{key} captures its CUDA graphs after it has sized the cache: they have to fit in the"
            f" {shown_gib(memory - budget.usable)} that gpu_memory_utilization {share} leaves of the card (0.3 to"
            " 1.6 GiB in most logs). Releases from 0.20 on count them inside: the same share keeps less cache there."
        )
        return [Caveat("graphs_are_outside_the_budget", text)]
    graphs = rule.graph_bytes.value
    text = (
        f"{key} counts about {shown_gib(graphs)} of CUDA graphs inside gpu_memory_utilization: {share} here is like"
        f" {float(exact(share)) - graphs / memory:.4f} in releases up to 0.19, which capture them outside (the"
        " engine's log prints its own value). Where a capture fails, another share doesn't help: enforce_eager does."
    )
    most = shared_graphs(rule, question.gpu.spec, levers)
    if most is not None:
        text += (
            f" This card shares its memory with the host, and what the host takes meanwhile counts as graphs: up to"
            f" {shown_gib(most.value)}, where {share} is like {float(exact(share)) - most.value / memory:.4f}. Readings"
            " below nothing are known too: the cache that they add isn't there."
        )
    return [Caveat("graphs_are_inside_the_budget", text)]


def _of_what_is_left_over(question: Question, budget: Budget) -> list[Caveat]:
    """Warn of a fraction that leaves less than start-ups have taken beside what they had profiled."""
    memory, share = budget.rungs[0].value, question.levers.gpu_memory_utilization
    left = memory - budget.usable - question.levers.other_process_bytes
    wanted = min(_UNPROFILED, memory // _UNPROFILED_SHARE)
    if left >= wanted:
        return []
    text = (
        f"gpu_memory_utilization {share} leaves {shown_gib(left)} to what no start-up profiles: leave"
        f" {shown_gib(wanted)}. On a card of 24 GB 0.98 passed its check and failed in the capture of CUDA graphs,"
        " where 0.97 started; on cards of 32 GB processes took up to 1.37 GiB more than their budget."
    )
    return [Caveat("little_is_left_over", text)]


def _of_towers(question: Question, rule: Profiled) -> list[Caveat]:
    levers, model = question.levers, question.model
    given = levers.reserve_bytes is not None or question.observed_reserve is not None
    if given or levers.language_model_only or not has_tower(model.spec):
        return []
    levels = "fewer images per prompt, fewer max_num_seqs, or language_model_only give it back"
    if tower_of(rule, model.spec) is None:
        text = (
            f"What the largest input of {model.key}'s tower takes at start-up isn't known and isn't counted: 2.5 to 2.8"
            f" GiB of some models, 36 GiB of another. Give it as reserve_bytes; {levels}."
        )
        return [Caveat("tower_is_not_counted", text)]
    text = f"{model.key}'s tower runs its largest input at start-up, which the reserve counts: {levels}."
    return [Caveat("tower_is_profiled", text)]


def _of_states(question: Question, rule: Profiled) -> list[Caveat]:
    caches = question.model.spec.caches.value
    given = question.levers.reserve_bytes is not None
    if given or rule.delta_net_spread is None or not any(isinstance(cache, GatedDeltaNet) for cache in caches):
        return []
    text = f"{rule.delta_net_spread.source}. Plan with the low end, and compare with what the engine prints."
    return [Caveat("start_ups_differ", text[0].upper() + text[1:])]


def _of_two_sides(question: Question, budget: Budget) -> list[Caveat]:
    share = question.levers.gpu_memory_utilization
    left = budget.rungs[0].value - budget.usable
    text = (
        f"Weights and cache share gpu_memory_utilization {share} (mem_fraction_static); steps and CUDA graphs use the"
        f" {shown_gib(left)} that it leaves. A start that has no room for the cache wants a larger share, memory that"
        " runs out while requests run a smaller one. Fewer CUDA graphs don't enlarge the cache."
    )
    found = [Caveat("fraction_has_two_sides", text)]
    if question.gpu.spec.vendor == "AMD":
        text = (
            "Workspaces of attention kernels (AITER) lie outside of the pool and grow with its tokens: 51.75 GB beside"
            " a pool of 152.88 GB in one thread. They aren't counted: give them as other_process_bytes."
        )
        found.append(Caveat("workspaces_are_not_counted", text))
    return found

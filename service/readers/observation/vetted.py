"""What of a log's free texts is kept: only what has the form of a name; paths and versions may hold keys and hosts."""

import re

import msgspec

from service.readers.start_up_log import StartUpLog
from service.readers.start_up_log.facts import Deployment
from service.readers.start_up_log.printed import Seen

_HUB_CACHE = re.compile(r"models--[^/]{1,200}?--(?P<name>[^/]{1,200})/snapshots/")
"""Where a hub's client keeps what it loaded: the folder inside is named by a digest."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,96}", re.ASCII)
_FORMAT = re.compile(r"[a-z0-9_.-]{1,32}", re.ASCII)
_TOKEN = re.compile(r"(?:hf_|sk-|ghp_|api_)[A-Za-z0-9]{8}", re.IGNORECASE)
_VERSION = re.compile(
    r"(?P<public>v?\d{1,6}(?:\.\d{1,9}){0,3}(?:[.-]?(?:a|b|rc|dev|post)\d{0,9}){0,3})(?:\+[\w.+-]*)?", re.ASCII
)

_FORMATS = ("dtype", "quantization", "kv_cache_dtype")


def vetted(log: StartUpLog) -> StartUpLog:
    """The log without texts that may be anything: they count as not stated."""
    version = None if log.version is None else public_version(log.version.value)
    return msgspec.structs.replace(
        log,
        version=None if log.version is None or version is None else msgspec.structs.replace(log.version, value=version),
        asked=_deployment(log.asked),
        resolved=_deployment(log.resolved),
    )


def checkpoint_name(path: str) -> str:
    """The name of a checkpoint in the path or id that it was loaded from."""
    cached = _HUB_CACHE.search(path)
    bare = re.split(r"[?#]", path, maxsplit=1)[0]
    return cached["name"] if cached else bare.replace("\\", "/").rstrip("/").rpartition("/")[2]


def public_version(version: str) -> str | None:
    """The numbers of a version and what they come before or after, without the part of whoever built it."""
    found = _VERSION.fullmatch(version)
    return found["public"] if found else None


def _deployment(told: Deployment) -> Deployment:
    return msgspec.structs.replace(
        told,
        model=None if told.model is None else _kept(told.model, checkpoint_name(told.model.value), _NAME),
        **{
            name: None if seen is None else _kept(seen, seen.value, _FORMAT)
            for name in _FORMATS
            for seen in (getattr(told, name),)
        },
    )


def _kept(seen: Seen[str], text: str, form: re.Pattern[str]) -> Seen[str] | None:
    if not form.fullmatch(text) or _TOKEN.search(text):
        return None
    return msgspec.structs.replace(seen, value=text)

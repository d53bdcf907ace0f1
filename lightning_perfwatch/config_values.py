"""The checks of single settings: what each may be, and what is said about a wrong one.

Every check takes a value as it was written and returns it as it is used. Raises ValueError with one sentence that
names the setting, the value and the remedy. Knows no Trainer and no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from lightning_perfwatch.rules import Rule, build_rules, rule_class

RANK_WORDS = ("rank0", "all")


def tokens(value: Any) -> Any:
    """What tells the tokens of a batch: a key, a callable or None."""
    if value is None or callable(value) or (isinstance(value, str) and value):
        return value
    raise ValueError(f"tokens must be the key of the token ids, a callable or None, got {value!r}.")


def positive(name: str, value: Any, *others: str) -> float | None:
    """The positive number or None that the setting ``name`` is to be; ``others`` are what else it may be."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError(f"{name} must be {', '.join(('a positive number', *others))} or None, got {value!r}.")


def ranks(value: Any) -> str | tuple[int, ...]:
    """Which processes record: a word or a tuple of ranks."""
    if isinstance(value, str):
        if value not in RANK_WORDS:
            raise ValueError(f"ranks must be 'rank0', 'all' or a list of ranks, got {value!r}.")
        return value
    if isinstance(value, Iterable):
        ranks = tuple(value)
        if all(isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 for rank in ranks):
            return ranks
    raise ValueError(f"ranks must be 'rank0', 'all' or a list of ranks such as [0, 8], got {value!r}.")


def directory(value: Any) -> Path | None:
    """The run directory, or None for the usual one."""
    if value is None:
        return None
    text = fspath(value) if isinstance(value, (str, PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"dir must be a path or None, got {value!r}.")
    # kept as written: Path("s3://bucket/x") would lose a slash, and the error has to name what the user wrote
    return value if "://" in text else Path(text)


def rules(value: Any) -> tuple[Rule, ...] | None:
    """The rules to ask, or None for all."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        for rule_id, thresholds in value.items():
            if not isinstance(thresholds, Mapping | None):
                raise ValueError(f"rules.{rule_id} must be a mapping of thresholds, got {thresholds!r}.")
        return build_rules({str(rule_id): dict(thresholds or {}) for rule_id, thresholds in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_rule(item) for item in value)
    raise ValueError(f"rules must be None, a list of rules or a mapping from rule id to thresholds, got {value!r}.")


def _rule(value: Any) -> Rule:
    if isinstance(value, Rule):
        return value
    if isinstance(value, type) and issubclass(value, Rule):
        return value()
    if isinstance(value, str):
        return rule_class(value)()
    raise ValueError(f"rules must hold rules or rule ids, got {value!r}.")


def ignored(value: Any) -> tuple[str, ...]:
    """Ids of rules that stay silent."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"ignore must be a list of rule ids, got {value!r}.")
    ids = tuple(str(rule_id) for rule_id in value)
    for rule_id in ids:
        rule_class(rule_id)
    return ids


def share(name: str, value: Any) -> float | None:
    """The share of the training time (0..1] or None that the setting ``name`` is to be."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise ValueError(f"{name} must be a share above 0 and at most 1 such as 0.01, or None for no limit, got {value!r}.")


def flag(name: str, value: Any) -> bool:
    """The truth value that the setting ``name`` is to be."""
    if isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be true or false, got {value!r}.")

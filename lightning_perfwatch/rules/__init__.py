"""All rules, found by walking this package: a module in here with a rule in it is all that it takes.

Owns the registry. Knows no rule by name.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache

from lightning_perfwatch.rules.rule import Rule

__all__ = ["Rule", "all_rules", "build_rules", "rule_class", "unknown_name"]


_LARGEST = sys.float_info.max


@cache
def all_rules() -> dict[str, type[Rule]]:
    """Every rule class by its id, in alphabetical order."""
    found: dict[str, type[Rule]] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Rule) and member is not Rule and member.__module__ == module.__name__:
                found[member.id()] = member
    return found


def rule_class(rule_id: str) -> type[Rule]:
    """The rule with this id.

    Raises:
        ValueError: there is no such rule; the message names the nearest one.
    """
    try:
        return all_rules()[rule_id]
    except KeyError:
        raise ValueError(unknown_name("rule", rule_id, all_rules())) from None


def build_rules(thresholds: Mapping[str, Mapping[str, object]], only: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules named in ``only`` (all if it is empty), with ``thresholds`` as rule id -> field -> number.

    Raises:
        ValueError: there is no such rule or threshold, or a value is no number of its threshold's type.
    """
    arguments = {}
    for rule_id, values in thresholds.items():
        kind = rule_class(rule_id)
        arguments[rule_id] = {name: _threshold(kind, name, value) for name, value in values.items()}
    classes = {rule_id: rule_class(rule_id) for rule_id in only} or all_rules()
    return tuple(kind(**arguments.get(rule_id, {})) for rule_id, kind in classes.items())


def _threshold(kind: type[Rule], name: str, value: object) -> int | float:
    known = {field.name for field in fields(kind) if field.init}
    if name not in known:
        raise ValueError(unknown_name(f"threshold of {kind.id()}", name, known))
    wanted = typing.get_type_hints(kind)[name]
    full_name = f"{kind.id()}.{name}"
    if wanted not in (int, float):
        raise ValueError(f"{full_name} is no number and can't be set, got {value!r}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{full_name} must be a number, got {value!r}.")
    if wanted is int and not isinstance(value, int):
        raise ValueError(f"{full_name} must be a whole number, got {value!r}.")
    return float(value) if wanted is float else value


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """One sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    nearest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    known_names = f"known are {', '.join(names)}." if names else "there is none."
    remedy = f"did you mean {nearest[0]!r}?" if nearest else known_names
    return f"Unknown {kind} {str(name)!r}: {remedy}"

"""PerfWatch's settings: validated data, readable from YAML, a dict or a DictConfig.

Owns which settings there are and how they are written. Measures nothing and knows no Trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_perfwatch import config_values as values
from lightning_perfwatch.live.schedule import Schedule
from lightning_perfwatch.live.trace_options import TraceOptions
from lightning_perfwatch.live.triggers import Triggers
from lightning_perfwatch.rules import Rule, all_rules, unknown_name

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class PerfWatchConfig:
    """Everything that :class:`~lightning_perfwatch.PerfWatch` can be told.

    Args:
        schedule: which steps are profiled; a mapping is read as the fields of a Schedule.
        tokens: how to count the tokens of a batch: None finds them by shape, a string is the key of the token ids,
            a callable gets the batch and returns a whole number.
        ranks: which processes record traces: ``"rank0"``, ``"all"`` or a list of ranks. All count throughput.
        dir: the run directory; None is ``perfwatch`` below the logger's directory.
        rules: None for all rules, a sequence of rules for those only, or a mapping from rule id to thresholds.
        ignore: ids of rules that stay silent.
        quiet: print nothing; the report is still written.
        trace: what a trace records; a mapping is read as the fields of TraceOptions.
        flops_per_batch: the model FLOPs of one batch on one device: a number, a function of the batch, or None to
            take the module's own or count them.
        peak_tflops: the device's dense peak in 1e12 FLOP/s; None looks it up.
        max_overhead_share: what repeated windows, and what PerfWatch's hooks may cost, each as a share (0..1] of the
            training time; beyond it PerfWatch does less and says so. Windows that were asked for, the first one and
            those on request, don't count. None is no limit.
        triggers: what opens a window besides the schedule; a mapping is read as the fields of Triggers.

    Raises:
        ValueError: a value can't be used; the message names the field, the value and the remedy.
    """

    schedule: Schedule = field(default_factory=Schedule)
    tokens: str | Callable[[Any], int] | None = None
    ranks: str | tuple[int, ...] = "rank0"
    dir: Path | None = None
    rules: tuple[Rule, ...] | None = None
    ignore: tuple[str, ...] = ()
    quiet: bool = False
    trace: TraceOptions = field(default_factory=TraceOptions)
    flops_per_batch: float | Callable[[Any], float] | None = None
    peak_tflops: float | None = None
    max_overhead_share: float | None = 0.01
    triggers: Triggers = field(default_factory=Triggers)

    def __post_init__(self) -> None:
        checked = {
            "schedule": _part("schedule", Schedule, self.schedule),
            "tokens": values.tokens(self.tokens),
            "ranks": values.ranks(self.ranks),
            "dir": values.directory(self.dir),
            "rules": values.rules(self.rules),
            "ignore": values.ignored(self.ignore),
            "quiet": values.flag("quiet", self.quiet),
            "trace": _part("trace", TraceOptions, self.trace),
            "flops_per_batch": self.flops_per_batch
            if callable(self.flops_per_batch)
            else values.positive("flops_per_batch", self.flops_per_batch, "a callable"),
            "peak_tflops": values.positive("peak_tflops", self.peak_tflops),
            "max_overhead_share": values.share("max_overhead_share", self.max_overhead_share),
            "triggers": _part("triggers", Triggers, self.triggers),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, source: str | PathLike[str] | Mapping[str, Any] | Any) -> PerfWatchConfig:
        """The settings in a YAML file (a path), a dict or a ``DictConfig``.

        Interpolations are resolved. Keys that start with ``_`` (Hydra's ``_target_``) are passed over. Types are
        those of :meth:`schema`.

        Raises:
            ValueError: the file can't be read, a key is unknown, a mandatory value (``???``) is missing or a value
                has the wrong type; the message names the key.
        """
        return cls(**_plain_mapping(source))

    @classmethod
    def schema(cls) -> DictConfig:
        """The settings as a structured OmegaConf config, typed key by key, with their defaults.

        Made for Hydra's ``ConfigStore`` and for ``OmegaConf.merge``: a wrong type or key is refused there by name.
        """
        from omegaconf import OmegaConf

        parts = {name: OmegaConf.structured(kind) for name, kind in _PARTS.items()}
        for part in parts.values():
            OmegaConf.set_readonly(part, False)  # frozen dataclasses make read-only configs
        schema = OmegaConf.create({**OmegaConf.structured(_Plain), **parts}, flags=_ANY_OBJECT)
        OmegaConf.set_struct(schema, True)
        return schema

    def records_on(self, rank: int) -> bool:
        """Whether the process with this rank records traces."""
        if self.ranks == "all":
            return True
        return rank == 0 if self.ranks == "rank0" else rank in self.ranks

    def child_arguments(self) -> list[str] | None:
        """Arguments of ``perfwatch analyze`` for these rules; None if only this process can ask them.

        That is so for a rule that was made outside of this package, and for no rule at all.
        """
        if self.rules is not None and not self.rules:
            return None
        arguments = [word for rule_id in self.ignore for word in ("--ignore", rule_id)]
        for rule in self.rules or ():
            if all_rules().get(rule.id()) is not type(rule):
                return None
            arguments += ["--rule", rule.id()]
            for threshold in fields(rule):
                arguments += ["--rule", f"{rule.id()}.{threshold.name}={getattr(rule, threshold.name)}"]
        return arguments


@dataclass
class _Plain:
    """The settings of plain type, for the schema."""

    tokens: Any = None
    ranks: Any = "rank0"
    dir: str | None = None
    rules: Any = None
    ignore: list[str] = field(default_factory=list)
    quiet: bool = False
    flops_per_batch: Any = None
    peak_tflops: float | None = None
    max_overhead_share: float | None = 0.01


def _plain_mapping(source: Any) -> dict[str, Any]:
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(source, (str, PathLike)):
        source = _read_yaml(Path(source))
    if not isinstance(source, (Mapping, DictConfig)):
        raise ValueError(f"PerfWatch settings must be a mapping, got {type(source).__name__}.")
    objects = {} if isinstance(source, DictConfig) else {key: source[key] for key in ("rules",) if key in source}
    try:
        config = source
        if not isinstance(source, DictConfig):  # rules are dataclasses, which OmegaConf would take apart
            config = OmegaConf.create({key: source[key] for key in source if key not in objects}, flags=_ANY_OBJECT)
        missing = sorted(str(key) for key in OmegaConf.missing_keys(config))
        if missing:
            raise ValueError(f"PerfWatch setting {missing[0]!r} is mandatory ('???'): give it a value.")
        plain = OmegaConf.to_container(config, resolve=True)
        assert isinstance(plain, dict)
        chosen = _known_keys("PerfWatch", PerfWatchConfig, {str(key): value for key, value in plain.items()})
        for name, kind in _PARTS.items():
            if isinstance(chosen.get(name), dict):
                chosen[name] = _known_keys(name, kind, chosen[name])
            elif chosen.get(name, _NOT_GIVEN) is None:
                del chosen[name]
            elif name in chosen:
                raise ValueError(f"PerfWatch setting {name!r} must be a mapping, got {chosen[name]!r}.")
        typed = OmegaConf.to_container(OmegaConf.merge(PerfWatchConfig.schema(), chosen))
    except (OmegaConfBaseException, RecursionError) as error:
        key = getattr(error, "full_key", None)
        place = f"setting {key!r}" if key else "settings"
        raise ValueError(f"PerfWatch {place} can't be read: {(str(error) or 'it is empty').splitlines()[0]}") from error
    assert isinstance(typed, dict)
    return {**{str(key): value for key, value in typed.items()}, **objects}


_PARTS = {"schedule": Schedule, "trace": TraceOptions, "triggers": Triggers}
_ANY_OBJECT = {"allow_objects": True}
_NOT_GIVEN = object()


def _read_yaml(path: Path) -> Any:
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.load(path)
    except (OSError, UnicodeDecodeError, RecursionError, OmegaConfBaseException) as error:
        raise ValueError(f"PerfWatch settings can't be read from {path}: {' '.join(str(error).split())}.") from error
    except yaml.YAMLError as error:
        raise ValueError(f"PerfWatch settings in {path} are no YAML: {' '.join(str(error).split())}.") from error


def _known_keys(what: str, kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    known = {item.name for item in fields(kind)}
    chosen = {key: value for key, value in given.items() if not key.startswith("_")}
    for key in chosen:
        if key not in known:
            raise ValueError(unknown_name(f"{what} setting", key, known))
    return chosen


def _part(name: str, kind: type[Any], value: Any) -> Any:
    if value is None:
        return kind()
    if isinstance(value, kind):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return kind(**_known_keys(name, kind, {str(key): part for key, part in value.items()}))
    raise ValueError(f"{name} must be a {kind.__name__} or a mapping of its fields, got {value!r}.")

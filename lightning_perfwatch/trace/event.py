"""One event as the decoder gives it, before anything is made of it; knows the file's spelling, not its meaning."""

import msgspec

ABSENT = -1  # an argument that the event does not have
NOTHING = msgspec.Raw(b"")  # the default of a text: one object, so that it is found by identity


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that become columns. `dims`, `types` and `hierarchy` stay JSON text."""

    correlation: int | None = ABSENT
    device: int | None = ABSENT
    stream: int | None = ABSENT
    bytes: int | None = ABSENT
    allocation_bytes: int | None = msgspec.field(name="Bytes", default=0)
    allocated_bytes: int | None = msgspec.field(name="Total Allocated", default=ABSENT)
    reserved_bytes: int | None = msgspec.field(name="Total Reserved", default=ABSENT)
    memory_device: int | None = msgspec.field(name="Device Id", default=ABSENT)
    device_type: int | None = msgspec.field(name="Device Type", default=ABSENT)
    blocks_per_sm: float | None = msgspec.field(name="blocks per SM", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    hierarchy: msgspec.Raw = msgspec.field(name="Module Hierarchy", default=NOTHING)


class Event(msgspec.Struct, gc=False):
    """One event. Timed ones have `ph` "X", or are a pair of "B" and "E"; the allocator's have "i"."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None


def lenient(value: object) -> Event | None:
    """An event from a value whose fields have unexpected types: numbers as text, arguments as a list."""
    if not isinstance(value, dict):
        return None
    args = value.get("args")
    category, pid, tid = value.get("cat"), value.get("pid"), value.get("tid")
    return Event(
        ph=str(value.get("ph") or ""),
        cat=None if category is None else str(category),
        name=str(value.get("name") or ""),
        pid=pid if isinstance(pid, int | str | float) else None,
        tid=tid if isinstance(tid, int | str | float) else None,
        ts=_number(value.get("ts")),
        dur=_number(value.get("dur")),
        args=_lenient_args(args) if isinstance(args, dict) else None,
    )


def _lenient_args(args: dict[object, object]) -> Args:
    return Args(
        correlation=_integer(args.get("correlation")),
        device=_integer(args.get("device")),
        stream=_integer(args.get("stream")),
        bytes=_integer(args.get("bytes")),
        allocation_bytes=_integer(args.get("Bytes", 0)),
        allocated_bytes=_integer(args.get("Total Allocated")),
        reserved_bytes=_integer(args.get("Total Reserved")),
        memory_device=_integer(args.get("Device Id")),
        device_type=_integer(args.get("Device Type")),
        blocks_per_sm=_number(args.get("blocks per SM")),
        dims=_text(args.get("Input Dims")),
        types=_text(args.get("Input type")),
        hierarchy=_text(args.get("Module Hierarchy")),
    )


def _number(value: object) -> float | int | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**63 else None


def _text(value: object) -> msgspec.Raw:
    return NOTHING if value is None else msgspec.Raw(msgspec.json.encode(value))

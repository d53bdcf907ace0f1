"""`read_trace`: a profiler's file to a `Trace`, in bounded memory.

Owns the order of reading, what is left out and how it is said; the JSON is decode.py's, the analysis others'.
"""

from pathlib import Path

from lightning_perfwatch.trace.build import build_trace
from lightning_perfwatch.trace.collector import Collector
from lightning_perfwatch.trace.decode import EventStream
from lightning_perfwatch.trace.parts import read_in_parts
from lightning_perfwatch.trace.source import Source, TraceError
from lightning_perfwatch.trace.trace import Trace

__all__ = ["TraceError", "read_trace"]

_CUT_OFF = "The file is cut off{}: what came after its last whole event is missing."


def read_trace(path: Path, num_processes: int = 1) -> Trace:
    """Read a Kineto trace, `.json` or `.json.gz` (the content decides, not the name).

    A large plain file is read by up to `num_processes` processes; what comes of it is the same.

    Raises TraceError, one sentence naming the file and the remedy, for a file that gives no event at all; of
    a damaged one it takes what can be read and says in `left_out` what is missing.
    """
    path = Path(path)
    whole = read_in_parts(path, num_processes) if num_processes > 1 else None
    if whole is not None:
        return build_trace(path, whole.metadata, whole.collector, [_CUT_OFF.format("")] if whole.cut_off else [])
    source = Source(path)
    stream = EventStream(source.blocks())
    collector = Collector()
    for events in stream:
        collector.add(events)
    _refuse_what_is_no_trace(path, source, stream, collector)
    return build_trace(path, stream.metadata.values, collector, _left_out(source, stream))


def _refuse_what_is_no_trace(path: Path, source: Source, stream: EventStream, collector: Collector) -> None:
    damage = f" ({source.damage})" if source.damage else ""
    if damage and collector.num_timed == 0:
        raise TraceError(f"{path} gives no event{damage}: copy it again or record another trace.")
    if not stream.looks_like_json:
        raise TraceError(f"{path} is not JSON: give a trace that torch.profiler exported.")
    if not stream.found_events:
        raise TraceError(f"{path} has no traceEvents: give a trace that torch.profiler exported.")
    if collector.num_timed == 0:
        raise TraceError(f"{path} holds no timed event: record at least one whole step.")


def _left_out(source: Source, stream: EventStream) -> list[str]:
    said = []
    if stream.cut_off:
        why = f" ({source.damage})" if source.damage else ""
        said.append(_CUT_OFF.format(why))
    elif source.damage:
        said.append(f"Reading ended early: {source.damage}.")
    if stream.goes_on:
        said.append("Something follows the end of the trace in the file and was left out.")
    if stream.num_dropped:
        said.append(f"{stream.num_dropped} events are not valid JSON and were left out.")
    if stream.num_bare:
        said.append(f"The arguments of {stream.num_bare} events are not valid JSON and were left out.")
    larger = f"larger than {stream.longest_bytes / 1e6:g} MB"
    if stream.num_long:
        said.append(f"{_count(stream.num_long)} {larger} {'was' if stream.num_long == 1 else 'were'} left out.")
    if stream.num_long_bare:
        said.append(f"The arguments of {_count(stream.num_long_bare)} {larger} were left out.")
    if stream.metadata.is_long:
        said.append(f"The metadata is {larger}; only the parts that could be told apart were read.")
    if not stream.metadata.is_whole:
        said.append("The metadata is not valid JSON; only the parts that could be told apart were read.")
    return said


def _count(number: int) -> str:
    return "1 event" if number == 1 else f"{number} events"

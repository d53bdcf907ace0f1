"""Random synthetic traces: whole microseconds, so that sets of unit cells can be the truth."""

import random

from tests.trace.factories import Json, annotation, call, copy, fetch, fill, kernel, op, optimizer_step, step

_SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def random_events(seed: int, num_devices: int = 2) -> list[Json]:
    """Steps, with or without gaps between, of a host that runs ahead or behind and of devices with three streams."""
    generator = random.Random(seed)
    integer = generator.randint
    events: list[Json] = []
    at = 0
    for number in range(integer(1, 6)):
        at += integer(0, 1) * integer(0, 50)
        dur = integer(20, 3000)
        if seed % 5:
            events.append(step(number + 3, at, dur))
        else:
            events.append(optimizer_step(at + dur - integer(0, 9), integer(0, 9)))
        events.append(op(at + integer(0, 9), integer(1, dur)))
        at += dur
    for correlation in range(1, integer(2, 60)):
        start, device = integer(-20, at), integer(0, num_devices - 1)
        launched = max(start + integer(-2000, 3), -100)
        name = generator.choice(["sgemm", "gelu", "ncclDevKernel_AllReduce"])
        shape = generator.randrange(8)
        dur, stream = integer(0, 400), generator.choice([7, 20, 23])
        if shape == 0:
            events.append(copy(start, dur, correlation=correlation, stream=stream))
        elif shape == 1:
            events.append(fill(start, dur, correlation=correlation, stream=stream))
        else:
            events.append(kernel(start, dur, name, correlation, device, stream))
        if seed % 3 and generator.random() < 0.9:
            events.append(call(launched, integer(1, 9), correlation=correlation))
        events.append(op(launched - integer(0, 5), integer(1, 40), tid=generator.choice([100, 200])))
    for _ in range(integer(0, 6)):
        events.append(call(integer(0, at), integer(1, 300), generator.choice(_SYNCS)))
        events.append(fetch(integer(0, at), integer(0, 200)))
        events.append(annotation("label", integer(0, at), 5))
    generator.shuffle(events)
    return events

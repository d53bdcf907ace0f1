import numpy as np
import pytest

from lightning_perfwatch.trace import CodePlace, annotation_at, code_place
from tests.trace.factories import annotation, frame, op, step, trace


def test_without_frames_there_is_no_place() -> None:
    recorded = trace(step(1, 0, 100), op(10, 10))
    assert code_place(recorded, recorded.ops) is None


def test_the_innermost_function_of_the_users_is_the_place() -> None:
    recorded = trace(
        frame("train.py(3): main", 0, 100),
        frame("nn.Module: Net_0", 5, 90),
        frame("models/net.py(12): forward", 6, 80),
        frame("torch/nn/functional.py(2295): linear", 8, 20),
        frame("<built-in function linear>", 9, 18),
        op(10, 10),
    )
    assert code_place(recorded, recorded.ops) == CodePlace("models/net.py", 12, "forward")


def test_the_place_of_most_events_counts() -> None:
    recorded = trace(
        frame("a.py(1): one", 0, 10), op(5, 1), frame("b.py(2): two", 20, 20), op(25, 1), op(30, 1),
    )  # fmt: skip
    assert code_place(recorded, recorded.ops) == CodePlace("b.py", 2, "two")


@pytest.mark.parametrize(
    "name",
    [
        "torch/nn/modules/module.py(1532): _call_impl",
        "/opt/lib/python3.11/site-packages/anything/here.py(7): f",
        "/usr/lib/python3/dist-packages/x.py(7): f",
        "/usr/lib/python3.11/random.py(7): f",
        "lightning/pytorch/trainer/trainer.py(530): fit",
        "threading.py(1032): _bootstrap",
        "<frozen importlib._bootstrap>(241): _call_with_frames_removed",
        "<built-in method item of Tensor object at 0x7f>",
        "nn.Module: Linear_0",
    ],
)
def test_libraries_are_nobodys_place(name: str) -> None:
    recorded = trace(frame(name, 0, 100), op(10, 10))
    assert code_place(recorded, recorded.ops) is None


def test_a_time_has_the_innermost_label_around_it() -> None:
    recorded = trace(
        step(1, 0, 100),
        annotation("outer", 10, 80),
        annotation("inner", 20, 40),
        annotation("elsewhere", 20, 40, tid=7),
    )
    assert annotation_at(recorded, np.empty(0)) is None
    assert annotation_at(recorded, np.array([30.0])) == "inner"
    assert annotation_at(recorded, np.array([5.0])) is None

"""What counts as a model FLOP, on hand-built steps; real ones are recorded in test_step_count.py."""

from __future__ import annotations

from typing import Any

import pytest

from lightning_perfwatch.live.flops import Op, StepFlops, count_flops

EVALUATE = "autograd::engine::evaluate_function: "
BF16 = "c10::BFloat16"


def mm(start_ns: int, m: int = 2, k: int = 4, n: int = 8, length_ns: int = 2, **changes: Any) -> Op:
    """A product of 128 FLOPs."""
    return op("aten::mm", start_ns, start_ns + length_ns, shapes=([m, k], [k, n]), **changes)


def op(name: str, start_ns: int, end_ns: int, **changes: Any) -> Op:
    return Op(name, start_ns, end_ns, **{"dtypes": ("float", "float"), **changes})


def span(name: str, start_ns: int, end_ns: int, **changes: Any) -> Op:
    return Op(name, start_ns, end_ns, **changes)


@pytest.mark.parametrize(
    ("name", "shapes", "values", "flops"),
    [
        ("aten::mm", ([2, 4], [4, 8]), (), 128),
        ("aten::addmm", ([8], [2, 4], [4, 8]), (), 128),
        ("aten::bmm", ([3, 2, 4], [3, 4, 8]), (), 3 * 128),
        ("aten::baddbmm", ([3, 2, 8], [3, 2, 4], [3, 4, 8]), (), 3 * 128),
        ("aten::_scaled_mm", ([2, 4], [4, 8], [], []), (), 128),
        # 5 x 5 places, 8 filters of 2 x 3 x 3, two samples
        (
            "aten::convolution",
            ([2, 4, 9, 9], [8, 2, 3, 3], [8]),
            (None, None, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2),
            2 * 2 * 25 * 8 * 18,
        ),
        ("aten::convolution", ([2, 8, 9], [8, 4, 3]), (None, None, None, [1], [0], [1], True, [0], 1), 2 * 2 * 9 * 96),
        (
            "aten::convolution_backward",
            ([2, 8, 5, 5], [2, 4, 9, 9], [8, 2, 3, 3]),
            (None, None, None, [8], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [True, True, True]),
            2 * 2 * 2 * 25 * 8 * 18,
        ),
        (
            "aten::convolution_backward",
            ([2, 8, 5, 5], [2, 4, 9, 9], [8, 2, 3, 3]),
            (None, None, None, [8], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [False, True, False]),
            2 * 2 * 25 * 8 * 18,
        ),
        # grouped queries: four heads of queries share two of keys and values; values are wider than keys
        ("aten::_scaled_dot_product_flash_attention", ([1, 4, 6, 8], [1, 2, 5, 8], [1, 2, 5, 10]), (), 4 * 6 * 5 * 36),
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            ([1, 4, 6, 10], [1, 4, 6, 8], [1, 4, 5, 8], [1, 4, 5, 10]),
            (),
            2 * 4 * 6 * 5 * 36,
        ),
    ],
)
def test_formulas(name: str, shapes: Any, values: Any, flops: float) -> None:
    assert count_flops([op(name, 0, 1, shapes=shapes, values=values)]) == StepFlops(flops, "fp32")


def test_the_kind_of_numbers_is_that_of_most_flops() -> None:
    counted = count_flops([mm(0), mm(10, m=200, dtypes=(BF16, BF16)), mm(20)])

    assert counted == StepFlops(2 * 128 + 12800, "bf16")


def test_an_operator_on_a_sharded_tensor_counts_with_its_local_part() -> None:
    whole = mm(0, m=8, length_ns=100)

    assert count_flops([whole, span("c10d::allreduce_", 10, 20), mm(30, m=2)]).flops == 128


def test_what_a_fused_operator_calls_is_its_own_work() -> None:
    attention = op("aten::_scaled_dot_product_flash_attention_for_cpu", 0, 100, shapes=([1, 2, 4, 8],) * 3)

    assert count_flops([attention, mm(10)]).flops == 2 * 2 * 4 * 4 * 16


def test_recomputed_activations_are_no_model_flops() -> None:
    """The node of the first thrown-away activation asks for no gradient itself, but what it runs does."""
    forward = mm(0, sequence=3)
    backward = [
        span(EVALUATE + "ReluBackward0", 100, 200),
        span("ReluBackward0", 101, 199, sequence=4, is_backward=True),
        mm(110, sequence=7),
        op("aten::threshold_backward", 150, 160, shapes=([2, 8], [2, 8])),
        span(EVALUATE + "MmBackward0", 300, 400),
        span("MmBackward0", 301, 399, sequence=3, is_backward=True),
        mm(310),
        mm(320),
    ]

    assert count_flops([forward, *backward]).flops == 3 * 128


def test_gradients_of_gradients_are() -> None:
    """With create_graph the backward pass itself asks for gradients."""
    backward = [
        span(EVALUATE + "MmBackward0", 100, 200),
        span("MmBackward0", 101, 199, sequence=3, is_backward=True),
        op("aten::t", 105, 106, sequence=6, shapes=([2, 4],)),
        mm(110, sequence=7),
        mm(120, sequence=9),
    ]

    assert count_flops([mm(0, sequence=3), *backward]).flops == 3 * 128


def test_a_device_thread_has_its_own_nodes() -> None:
    """On a GPU the backward pass runs on a thread of its own while the host waits in ``backward``."""
    host = span("backward", 90, 500)
    node = span(EVALUATE + "MmBackward0", 100, 200, thread=7)

    assert count_flops([mm(0, sequence=3), host, node, mm(110, thread=7), mm(120, thread=7)]).flops == 3 * 128


def test_the_optimizers_own_products_are_none_but_those_of_its_closure_are() -> None:
    """Muon orthogonalises by products; Lightning runs the whole step within the optimizer's."""
    step = span("Optimizer.step#Muon.step", 0, 1000)
    closure = [mm(10, sequence=3), mm(20), span(EVALUATE + "MmBackward0", 100, 200), mm(110), mm(120)]

    assert count_flops([step, *closure, mm(500), mm(600)]).flops == 4 * 128


def test_the_optimizer_is_told_apart_where_several_step_by_hand() -> None:
    steps = [span("Optimizer.step#Muon.step", start_ns, start_ns + 100) for start_ns in (200, 700)]
    nodes = [span(EVALUATE + "MmBackward0", start_ns, start_ns + 50) for start_ns in (100, 600)]
    model = [mm(10, sequence=3), mm(110), mm(500, sequence=5), mm(610)]

    assert count_flops([*steps, *nodes, *model, mm(210), mm(710)]).flops == 4 * 128


def test_a_compiled_backward_counts_as_twice_the_forward_at_most() -> None:
    """The partitioner puts recomputation into the backward graph, where nothing tells it from gradients."""
    forward = [span("CompiledFunction", 0, 50, sequence=1), mm(10), mm(20)]
    backward = [span(EVALUATE + "CompiledFunctionBackward", 100, 200), span("CompiledFunctionBackward", 101, 199)]
    gradients = [mm(start_ns) for start_ns in (110, 120, 130, 140)]

    assert count_flops([*forward, *backward, *gradients]).flops == 6 * 128
    assert count_flops([*forward, *backward, *gradients, mm(150), mm(160)]).flops == 6 * 128
    assert count_flops([*forward, *backward, *gradients[:3]]).flops == 5 * 128


@pytest.mark.parametrize(
    "hidden",
    [
        "aten::_cudnn_rnn",
        "aten::mkldnn_rnn_layer_backward",
        "aten::_flash_attention_forward",
        "flash_attn::_flash_attn_varlen_forward",
        "triton_tem_fused_mm_0",
        "cudaGraphLaunch",
        "aten::_grouped_mm",
    ],
)
def test_work_that_can_not_be_counted_makes_the_whole_unknown(hidden: str) -> None:
    counted = count_flops([mm(0), op(hidden, 10, 20)])

    assert counted.flops is None
    assert hidden in str(counted.reason)


def test_the_kernel_within_counted_attention_hides_nothing() -> None:
    attention = op("aten::_scaled_dot_product_flash_attention", 0, 100, shapes=([1, 2, 4, 8],) * 3)

    assert count_flops([attention, op("aten::_flash_attention_forward", 10, 20)]).flops == 2 * 2 * 4 * 4 * 16


def test_an_operator_of_another_form_makes_the_whole_unknown() -> None:
    for strange in (op("aten::mm", 0, 1, shapes=()), op("aten::mm", 0, 1, shapes=([], []))):
        assert count_flops([strange]) == StepFlops(reason="the FLOPs of aten::mm can't be told from its arguments")


def test_a_step_in_which_something_is_compiled_runs_fake_operators() -> None:
    counted = count_flops([span("aot_trace_joint_graph (dynamo_timed)", 0, 100), mm(10)])

    assert counted.flops is None
    assert "torch.compile" in str(counted.reason)


def test_a_step_without_products_is_unknown_and_not_zero() -> None:
    assert count_flops([op("aten::add", 0, 1, shapes=([2, 2], [2, 2]))]).flops is None
    assert count_flops([]).reason == "no matrix product, convolution or attention was seen in the step"

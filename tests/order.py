"""How several processes share the tests: how many there are, and which files come first.

A long file that comes last is waited for by all other processes.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

# Seconds of those that take longest: by themselves with nothing kept, or, where those were more, of
# their longest tests in a run of all.
_SECONDS = """
89 gpu/test_half_precision
81 examples/test_python_jobs
80 cli/training/test_kills
73 runtime_rpc/hostile_peers/test_hostile_peers
72 numeric/test_operators
68 gpu/test_gpu_training
62 cli/measuring/test_tune_command
54 gpu/test_gpu_products
52 comparison/test_turns
48 backends/products/test_write_products
48 errors/test_errors
48 numeric/not_numbers/test_nonfinite
47 backends/kernels/test_channels_last_kernels
45 pages/test_howto
42 device/test_opencl_of_the_standin
42 gpu/test_gpu_operators
41 backends/products/test_winograd_kernels
35 gpu/runtime/test_gpu_profile
35 runtime_rpc/adapters/test_peft
35 cli/measuring/test_device_bench
34 models/test_small
34 numeric/plans/test_offload
33 benchmarks/kernels/test_gpu_layouts
33 benchmarks/test_reference
30 gpu/runtime/test_gpu_faults
30 runtime_rpc/hostile_peers/test_hostile_at_tracker
29 backends/kernels/test_convolution_kernels
29 cli/measuring/test_compare_command
29 device/test_python_jobs
27 numeric/test_feeding
27 runtime_rpc/trainer/test_pages
25 backends/test_outlines
24 cli/measuring/test_kernel_measurer
24 numeric/forms/test_edges
23 backends/test_compiling
23 numeric/plans/test_memory_budget
22 device/faults/test_sessions
22 runtime_rpc/test_server
21 cli/test_commands
21 device/test_standin
21 numeric/plans/test_several_plans
21 passes/test_select_layouts
20 passes/kernel/test_group_updates
20 native/on_gpu/test_steps_on_gpu
19 cli/measuring/test_bench_command
19 device/test_adb
19 passes/test_native_planner
19 torch_export/test_from_torch
19 pages/test_tutorial
18 frontend/weights/test_folded_parameters
18 backends/products/test_neon_kernels
18 numeric/plans/test_half_activations
18 device/faults/test_runs
16 benchmarks/kernels/test_gpu_roofline
16 gpu/test_concat
16 cli/training/test_signals
16 frontend/weights/test_weight_matching
16 numeric/forms/test_indices
16 numeric/plans/test_memory
16 step_cache/test_step_cache
15 guarded/test_guarded
15 backends/kernels/test_attention_kernels
15 device/test_mixed_precision
15 device/test_native_runtime
15 passes/memory/test_memory_plan
15 test_packaging
14 frontend/weights/test_exported_weights
14 gpu/test_phone_schedules
14 runtime_rpc/test_local_session
14 runtime_rpc/trainer/test_turns
13 backends/products/test_neon_half_kernels
13 numeric/training/test_micro_batches
13 runtime_rpc/test_steps_per_call
13 passes/test_spread
12 backends/kernels/test_recurrent_kernels
12 cli/test_check_cost
12 numeric/not_numbers/test_writes_not_finite
12 passes/test_checkpoint
12 runtime_rpc/test_cores
12 passes/test_offload_plans
12 app/test_android_example
11 autoschedule/test_cpu
11 fuzz/graphs/test_graphs
11 passes/test_cuts
11 passes/memory/test_write_over
11 runtime_rpc/test_profile
11 benchmarks/test_adapter_learns
10 autoschedule/test_tuning_workers
10 backends/products/test_lane_gradient
10 benchmarks/test_compile_time
10 core/test_without_torch
10 errors/test_arguments
10 numeric/training/test_freezing
10 numeric/training/test_losses
10 numeric/forms/test_random
10 report/test_page
10 step_cache/test_changed_meanwhile
10 numeric/layers/test_cpus
9 backends/products/test_half_products
9 gpu/test_gpu_reductions
9 native/test_engines
9 runtime_rpc/trainer/test_resume
9 test_onnx_backend
9 numeric/training/test_quantised_base
8 backends/kernels/test_dropout_kernel
8 fuzz/test_fuzz
8 passes/graph/test_read_normalised
8 native/vulkan/test_validation
8 numeric/training/test_chunked_logits
"""
SECONDS = {name: int(seconds) for seconds, name in map(str.split, _SECONDS.strip().splitlines())}
_TESTS = Path(__file__).parent


def processes(cores: int) -> int:
    """Processes that share the tests: three for two cores.

    Tests wait: for limits of a server to pass, for processes to start and to end. Nothing that they
    assert depends on what else the machine does.
    """
    return cores + (cores + 1) // 2


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Tests by the seconds of their file; those of files without any stay behind, as they are."""
    return sorted(items, key=lambda item: -SECONDS.get(_name(item), 0))


def _name(item: pytest.Item) -> str:
    return item.path.relative_to(_TESTS).with_suffix("").as_posix()

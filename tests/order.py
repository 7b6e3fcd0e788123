"""How several processes share the tests: how many there are, and which files come first.

A long file that comes last is waited for by all other processes.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

# Seconds of those that take longest, in a run of all by three processes on two cores (Zen 4).
_SECONDS = """
103 runtime_rpc/hostile_peers/test_hostile_peers
91 cli/training/test_kills
87 native/on_gpu/test_steps_on_gpu
75 gpu/test_half_precision
67 examples/test_python_jobs
60 numeric/not_numbers/test_nonfinite
56 pages/test_howto
52 numeric/test_operators
50 gpu/test_gpu_operators
49 backends/test_outlines
48 models/test_small
47 backends/test_compiling
47 gpu/test_gpu_norms
44 cli/measuring/test_tune_command
44 gpu/test_gpu_training
44 gpu/test_matrices
41 native/on_gpu/test_served_gpu
41 numeric/layers/test_cpus
41 runtime_rpc/test_server
39 gpu/test_gpu_products
38 numeric/forms/test_edges
36 runtime_rpc/adapters/test_dora
36 comparison/test_turns
35 numeric/plans/test_memory_budget
32 errors/test_errors
31 device/faults/test_runs
31 numeric/training/test_chunked_logits
31 numeric/plans/test_offload
31 native/vulkan/test_other_devices
30 test_packaging
29 runtime_rpc/hostile_peers/test_hostile_at_tracker
29 numeric/training/test_half_base
29 passes/test_select_layouts
29 torch_export/test_coarse_types
28 backends/products/test_winograd_kernels
28 gpu/runtime/test_gpu_faults
27 runtime_rpc/adapters/test_peft_fields
27 backends/kernels/test_attention_kernels
27 runtime_rpc/lengths/test_micro_batches
27 passes/test_native_planner
26 cli/test_commands
25 runtime_rpc/adapters/test_gguf
25 gpu/runtime/test_gpu_profile
24 numeric/plans/test_half_activations
24 native/test_sanitized
24 native/vulkan/test_validation
24 runtime_rpc/guards/test_dropped_sessions
24 runtime_rpc/trainer/test_pages
24 backends/products/test_neon_kernels
23 gpu/test_grouped_loops
23 passes/graph/test_half_storage
23 torch_export/test_from_torch
23 benchmarks/kernels/test_gpu_roofline
22 step_cache/test_step_cache
21 device/faults/test_sessions
21 numeric/training/test_rounded_base
20 runtime_rpc/loop/test_features
20 torch_export/test_refused_modules
19 cli/test_check_cost
19 backends/kernels/test_channels_last_kernels
19 runtime_rpc/adapters/test_quantised_bases
19 runtime_rpc/adapters/test_peft
19 native/test_parity
19 numeric/plans/test_several_plans
18 numeric/training/test_lora_options
18 runtime_rpc/test_profile
18 test_onnx_backend
18 gpu/test_gpu_reductions
18 numeric/plans/test_memory
18 frontend/weights/test_exported_weights
17 cli/measuring/test_compare_command
17 torch_export/test_mixing
17 numeric/not_numbers/test_blind_queries
17 passes/test_offload_plans
17 gpu/test_phone_schedules
17 torch_export/test_gradients
17 passes/test_checkpoint
17 passes/test_cuts
17 cli/measuring/test_kernel_measurer
17 core/test_without_torch
16 step_cache/test_changed_meanwhile
16 numeric/test_feeding
16 gpu/test_take_gradient
16 native/test_jvm
16 benchmarks/arm/test_gate
16 report/test_damaged
16 autoschedule/test_cpu
16 cli/test_predict
16 benchmarks/test_reference
16 numeric/plans/test_frozen_costs
16 cli/training/test_signals
16 native/test_lengths
16 device/test_setup
15 benchmarks/kernels/test_gpu_layouts
15 runtime_rpc/hostile_peers/test_hostile_to_gpus
15 torch_export/test_memory
15 benchmarks/test_gpu_language_models
15 runtime_rpc/test_steps_per_call
15 backends/kernels/test_convolution_kernels
14 device/test_python_jobs
14 numeric/forms/test_indices
14 native/on_gpu/test_odtc_gpu
14 numeric/not_numbers/test_writes_not_finite
14 device/test_mixed_precision
13 device/test_messages
13 runtime_rpc/loop/test_validation
13 torch_export/test_attention
13 cli/files/test_outputs_are_not_inputs
13 gpu/test_gpu_codes
13 device/test_standin
13 cli/measuring/test_bench_command
13 cli/training/test_elsewhere
12 device/test_native_runtime
12 runtime_rpc/test_local_session
12 passes/graph/test_read_normalised
12 benchmarks/results/test_time_left
12 numeric/layers/test_recurrent
12 cli/training/test_train
11 cli/measuring/test_device_bench
11 torch_export/test_torchvision_anyway
11 gpu/test_product_results
11 cli/training/test_lengths
11 report/test_page
11 numeric/layers/test_direct_convolutions
11 autoschedule/test_tuning_workers
11 native/cores/test_late_threads
11 runtime_rpc/lengths/test_datasets
11 device/test_adb
11 numeric/training/test_row_updates
11 numeric/training/test_micro_batches
11 gpu/spirv/test_spirv_expressions
11 ways_in/test_cells
11 passes/memory/test_write_over
11 runtime_rpc/trainer/test_resume
11 runtime_rpc/loop/test_missing_labels
11 numeric/plans/test_quantised_costs
11 device/test_keys
11 numeric/training/test_freezing
11 native/on_gpu/test_bytes_of_calls
11 torch_export/test_named_batch
10 backends/products/test_half_arithmetic
10 device/test_stopped
10 frontend/weights/test_folded_parameters
10 gpu/test_concat
10 runtime_rpc/device_program/test_protocol
10 core/test_weights_beside
10 passes/graph/test_read_copies
10 runtime_rpc/trainer/test_threads_at_the_end
10 numeric/training/test_micro_batches_in_budgets
10 report/test_losses
10 runtime_rpc/loop/test_labels_inside
10 native/test_native_errors
10 torch_export/test_length_axis
10 pages/test_tutorial
10 core/test_large_files
10 numeric/training/test_quantised_base
10 passes/test_contract
10 fuzz/test_fuzz
10 passes/test_spread
10 driver/test_compile_memory
10 device/test_other_hosts
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

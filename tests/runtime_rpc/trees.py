"""Files of `/proc` and `/sys` of phones and a Jetson, written by hand in their drivers' formats.

A tree is text by path, below the root that a sampler is given.
"""

from pathlib import Path

_STAT = """\
cpu  300 0 100 800 40 0 0 0 0 0
cpu0 200 0 50 400 40 0 0 0 0 0
cpu1 100 0 50 400 0 0 0 0 0 0
intr 123456 0 9
ctxt 4242
"""
_MEMORY = "MemTotal:        5808372 kB\nMemFree:          304172 kB\nMemAvailable:    2097152 kB\n"
_STATUS = "Name:\tpython3\nVmPeak:\t  912 kB\nVmRSS:\t  524288 kB\nThreads:\t9\n"

_ANY: dict[str, str] = {
    "proc/stat": _STAT,
    "proc/meminfo": _MEMORY,
    "proc/self/status": _STATUS,
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1804800\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "2841600\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1804800\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-0-0-usr\n",
    "sys/class/thermal/thermal_zone0/temp": "41300\n",
    "sys/class/thermal/thermal_zone10/type": "battery\n",
    "sys/class/thermal/thermal_zone10/temp": "29000\n",
    "sys/class/power_supply/battery/status": "Discharging\n",
    "sys/class/power_supply/battery/current_now": "-500000\n",
    "sys/class/power_supply/battery/voltage_now": "4000000\n",
}
ADRENO = _ANY | {
    "sys/class/kgsl/kgsl-3d0/gpubusy": " 252503 1010012\n",
    "sys/class/kgsl/kgsl-3d0/gpuclk": "585000000\n",
}
MALI = _ANY | {
    "sys/class/misc/mali0/device/utilization": "37\n",
    "sys/class/devfreq/1c500000.mali/cur_freq": "848000000\n",
    "sys/class/power_supply/battery/status": "Charging\n",
    "sys/class/power_supply/battery/current_now": "812000\n",
}
# Other ways to say how busy a GPU is: path, text, percent.
GPUS = [
    ("sys/class/kgsl/kgsl-3d0/gpubusy", "      0       0\n", 0.0),
    ("sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", "12 %\n", 12.0),
    ("sys/kernel/gpu/gpu_busy", "55%\n", 55.0),
    ("sys/devices/platform/1c500000.mali/utilization", "3\n", 3.0),
    ("sys/kernel/ged/hal/gpu_utilization", "61 0 39\n", 61.0),
    ("sys/module/ged/parameters/gpu_loading", "8\n", 8.0),
    ("sys/class/devfreq/fb000000.gpu/load", "45@400000000Hz\n", 45.0),
    ("sys/devices/gpu.0/load", "734\n", 73.4),
]
# A TX2's lines at 500 ms, and one of an Orin Nano.
TX2 = """\
RAM 2135/7855MB (lfb 1057x4MB) CPU [20%@2035,off,off,0%@2035,40%@2036,20%@2035] EMC_FREQ 1%@1866 GR3D_FREQ 0%@1300 APE 150 MTS fg 0% bg 0% BCPU@30C MCPU@30C GPU@29C PLL@30C Tboard@28C Tdiode@28.25C PMIC@100C thermal@29.4C VDD_IN 3000/4029 VDD_CPU 291/730 VDD_GPU 145/207
RAM 2145/7855MB (lfb 1057x4MB) CPU [60%@2035,off,off,0%@2035,40%@2036,20%@2035] EMC_FREQ 1%@1866 GR3D_FREQ 80%@1300 APE 150 MTS fg 0% bg 0% BCPU@31C MCPU@30C GPU@29C PLL@30C Tboard@28C Tdiode@28.25C PMIC@100C thermal@29.4C VDD_IN 6000/4029 VDD_CPU 291/730 VDD_GPU 145/207
RAM 2155/7855MB (lfb 1057x4MB) CPU [40%@2035,off,off,0%@2035,0%@2036,20%@2035] EMC_FREQ 1%@1866 GR3D_FREQ 40%@1300 APE 150 MTS fg 0% bg 0% BCPU@30C MCPU@30C GPU@29C PLL@30C Tboard@28C Tdiode@28.25C PMIC@100C thermal@29.4C VDD_IN 8000/4029 VDD_CPU 291/730 VDD_GPU 145/207
"""  # noqa: E501
ORIN = "11-23-2026 02:30:01 RAM 3456/15388MB (lfb 20x4MB) SWAP 0/7694MB (cached 0MB) CPU [12%@1420,8%@1420,off,off] EMC_FREQ 24%@2133 GR3D_FREQ 5%@[306] cpu@52.5C soc2@50C gpu@-1.5C tj@53.5C VDD_IN 5000mW/5000mW VDD_CPU_GPU_CV 696mW/696mW"  # noqa: E501


def plant(tree: dict[str, str], root: Path) -> Path:
    """Writes a tree; returns its root."""
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root

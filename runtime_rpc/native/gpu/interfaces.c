#include "gpu.h"

extern const odtc_gpu_interface ODTC_OPENCL, ODTC_VULKAN;

const odtc_gpu_interface *const ODTC_GPU_INTERFACES[] = {&ODTC_OPENCL, &ODTC_VULKAN, NULL};

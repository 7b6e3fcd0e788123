#include "gpu.h"

extern const odtc_gpu_interface ODTC_OPENCL;

const odtc_gpu_interface *const ODTC_GPU_INTERFACES[] = {&ODTC_OPENCL, NULL};

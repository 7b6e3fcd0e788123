/* GPUs through Vulkan 1.1. */
#ifndef ODTC_VULKAN_H
#define ODTC_VULKAN_H

#include "gpu.h"

extern const odtc_gpu_interface ODTC_VULKAN;

#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vk_copy.h"
#include "vk_kernels.h"
#include "vk_list.h"
#include "vk_work.h"

static void close_gpu(odtc_gpu *gpu) {
  if (gpu->device) {
    gpu->vk.DeviceWaitIdle(gpu->device);
    while (gpu->lists) odtc_vk_free_list(gpu, (odtc_gpu_list *)gpu->lists);
    odtc_vk_unload(gpu);
    odtc_vk_end_work(gpu);
    odtc_vk_end_staging(gpu);
    odtc_vk_end_memory(gpu);
    gpu->vk.DestroyCommandPool(gpu->device, gpu->compute.commands, NULL);
    gpu->vk.DestroyCommandPool(gpu->device, gpu->transfer.commands, NULL);
    gpu->vk.DestroyDevice(gpu->device, NULL);
  }
  if (gpu->instance) gpu->vk.DestroyInstance(gpu->instance, NULL);
  pthread_mutex_destroy(&gpu->mutex);
  free(gpu->cache);
  free(gpu);
}

/* `driver` changes with the driver's version, which each vendor has its own way to write. */
static void describe(const odtc_gpu *gpu, odtc_gpu_about *about) {
  const VkPhysicalDeviceProperties *found = &gpu->properties;
  uint32_t api = found->apiVersion;
  snprintf(about->name, sizeof about->name, "%.255s", found->deviceName);
  snprintf(about->driver, sizeof about->driver, "Vulkan %u.%u.%u, driver %u of vendor %u", api >> 22 & 0x7f,
           api >> 12 & 0x3ff, api & 0xfff, found->driverVersion, found->vendorID);
  about->largest_buffer = found->limits.maxStorageBufferRange;
  about->most_items = found->limits.maxComputeWorkGroupInvocations;
  about->memory = odtc_vk_count_memory(gpu);
}

static odtc_code keep_folder(odtc_gpu *gpu, const char *folder, odtc_problem *problem) {
  if (!folder) return ODTC_OK;
  size_t bytes = strlen(folder) + 1;
  if (!(gpu->cache = malloc(bytes))) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a path");
  memcpy(gpu->cache, folder, bytes);
  return ODTC_OK;
}

static odtc_code open_gpu(const odtc_gpu_options *options, odtc_gpu **gpu, odtc_gpu_about *about,
                          odtc_problem *problem) {
  odtc_gpu *g = calloc(1, sizeof *g);
  if (!g || pthread_mutex_init(&g->mutex, NULL)) {
    free(g);
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a device");
  }
  if (keep_folder(g, options->cache, problem) || odtc_vk_open_library(g, problem) ||
      odtc_vk_open_device(g, options->number, problem) || odtc_vk_make_work(g, problem) ||
      odtc_vk_make_staging(g, problem)) {
    close_gpu(g);
    return problem->code;
  }
  describe(g, about);
  *gpu = g;
  return ODTC_OK;
}

static odtc_code load(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem) {
  return odtc_vk_check_there(gpu, problem) ? problem->code : odtc_vk_load(gpu, kernels, count, problem);
}

static odtc_code allocate(odtc_gpu *gpu, uint64_t bytes, odtc_gpu_buffer **buffer, odtc_problem *problem) {
  odtc_gpu_buffer *made;
  if (odtc_vk_check_there(gpu, problem) || odtc_vk_make_buffer(gpu, ODTC_VK_TENSOR, bytes, &made, problem))
    return problem->code;
  if (!made->host && odtc_vk_need_staging(gpu, problem)) {
    odtc_vk_end_buffer(gpu, made);
    return problem->code;
  }
  *buffer = made;
  return ODTC_OK;
}

/* What is put, taken or copied may still be queued. */
static void free_buffer(odtc_gpu *gpu, odtc_gpu_buffer *buffer) {
  odtc_problem none = {0};
  if (!buffer) return;
  odtc_vk_wait(gpu, NULL, &none);
  odtc_vk_end_buffer(gpu, buffer);
}

static odtc_code run(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem) {
  if (odtc_vk_check_there(gpu, problem)) return problem->code;
  int is_old = !list->is_recorded || list->is_timed != gpu->is_timed;
  if ((is_old && odtc_vk_record(gpu, list, problem)) ||
      odtc_vk_queue(gpu, list->commands, &list->number, problem))
    return problem->code = ODTC_DEVICE;
  return ODTC_OK;
}

static odtc_code wait_for(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem) {
  return odtc_vk_wait(gpu, list ? &list->number : NULL, problem);
}

static odtc_code set_timed(odtc_gpu *gpu, int is_timed, odtc_problem *problem) {
  if (is_timed && !gpu->timestamp_bits)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "%.200s does not say when a kernel runs",
                     gpu->properties.deviceName);
  gpu->is_timed = !!is_timed;
  return ODTC_OK;
}

extern const odtc_gpu_interface ODTC_VULKAN;
const odtc_gpu_interface ODTC_VULKAN = {
    .name = "vulkan",
    .module = "vulkan",
    .open = open_gpu,
    .close = close_gpu,
    .load = load,
    .describe = odtc_vk_describe,
    .allocate = allocate,
    .free_buffer = free_buffer,
    .write = odtc_vk_write,
    .read = odtc_vk_read,
    .fill = odtc_vk_fill,
    .put = odtc_vk_put,
    .take = odtc_vk_take,
    .copy = odtc_vk_copy,
    .prepare = odtc_vk_prepare,
    .free_list = odtc_vk_free_list,
    .run = run,
    .wait = wait_for,
    .set_timed = set_timed,
    .times = odtc_vk_times,
};

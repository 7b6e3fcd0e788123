/* A device of Vulkan that is open, and what belongs to it. */
#ifndef ODTC_VK_GPU_H
#define ODTC_VK_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu.h"
#include "vk.h"
#include "vk_functions.h"

/* Functions of the driver: gpu->vk.CreateBuffer is vkCreateBuffer. */
typedef struct {
#define VK_MEMBER(result, name, arguments) result(*name) arguments;
  VK_OF_LOADER(VK_MEMBER)
  VK_OF_INSTANCE(VK_MEMBER)
  VK_OF_DEVICE(VK_MEMBER)
  VK_OF_STATISTICS(VK_MEMBER)
#undef VK_MEMBER
} odtc_vk_functions;

/* What is in a list of all of its kind, so that closing a device finds what is left. */
typedef struct odtc_vk_link {
  struct odtc_vk_link *next, **at;
} odtc_vk_link;

static inline void odtc_vk_enter(odtc_vk_link **first, odtc_vk_link *link) {
  *link = (odtc_vk_link){*first, first};
  if (*first) (*first)->at = &link->next;
  *first = link;
}

static inline void odtc_vk_leave(odtc_vk_link *link) {
  *link->at = link->next;
  if (link->next) link->next->at = link->at;
}

/* A queue of the device, and where its command buffers come from. */
typedef struct {
  uint32_t family, number;
  VkQueue queue;
  VkCommandPool commands;
} odtc_vk_line;

typedef struct {
  VkShaderModule shader; /* where launches may have to be split, for which a driver compiles it again */
  VkDescriptorSetLayout bindings;
  VkPipelineLayout layout;
  VkPipeline pipeline, split; /* the latter for launches in parts, where there are some */
  uint32_t buffers, numbers, items[3];
  uint64_t read_only; /* a bit for each of the first 64 buffers */
  uint64_t offered, halves, images; /* likewise, of those that it can read as images, as such of float16, and that it does */
  uint64_t shared_bytes; /* of a work-group */
  uint32_t subgroup; /* items of those that multiply matrices; 0 where none do */
  int is_uniform;
  char name[256];
} odtc_vk_kernel;

typedef struct odtc_vk_work odtc_vk_work;
typedef struct odtc_vk_staging odtc_vk_staging;

struct odtc_gpu {
  odtc_vk_functions vk;
  PFN_vkVoidFunction (*find)(VkInstance, const char *); /* what not every library has */
  VkInstance instance;
  VkPhysicalDevice physical;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  VkDevice device;
  odtc_vk_line compute, transfer; /* the same queue where the device has but one */
  uint32_t timestamp_bits, capabilities; /* the latter a bit for each row of the table in vk_device.c */
  pthread_mutex_t mutex;  /* of all that `write` uses of what another thread may use, too */
  atomic_int is_lost;
  int is_timed, has_statistics; /* of pipelines */
  VkPhysicalDeviceSubgroupSizeControlProperties subgroups; /* zeros where the device says nothing of them */
  char *cache; /* a folder; NULL where nothing is kept */
  odtc_vk_link *buffers, *lists, *pieces;
  odtc_vk_kernel *kernels;
  size_t kernel_count;
  odtc_vk_work *work;       /* what is queued */
  odtc_vk_staging *staging; /* for copies from and to the host */
};

/* Opens libvulkan and an instance; finds the functions of it. */
odtc_code odtc_vk_open_library(odtc_gpu *gpu, odtc_problem *problem);
/* Opens a device, its queues, and finds its functions. */
odtc_code odtc_vk_open_device(odtc_gpu *gpu, int number, odtc_problem *problem);
/* Whether the device has what a capability of SPIR-V asks for. */
odtc_code odtc_vk_check_capability(const odtc_gpu *gpu, uint32_t capability, const char *kernel,
                                   odtc_problem *problem);

/* ODTC_OK for VK_SUCCESS; else notes what failed, and whether the device is lost. */
odtc_code odtc_vk_check(odtc_gpu *gpu, VkResult result, const char *what, odtc_problem *problem);
/* Whether the device is still there. */
odtc_code odtc_vk_check_there(odtc_gpu *gpu, odtc_problem *problem);

#endif

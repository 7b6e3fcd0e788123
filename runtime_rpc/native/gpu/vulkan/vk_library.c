#include <dlfcn.h>
#include <pthread.h>

#include "vk_gpu.h"

typedef PFN_vkVoidFunction (*get_proc)(VkInstance, const char *);

/* A driver has threads and variables of threads, so that a library stays once it was opened. */
static void *open_library(odtc_problem *problem) {
  static const char *const NAMES[] = {"libvulkan.so.1", "libvulkan.so"};
  void *library = NULL;
  for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES && !library; ++n)
    library = dlopen(NAMES[n], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    odtc_fail(problem, ODTC_DEVICE, "Vulkan's library cannot be opened: %.300s", dlerror());
  return library;
}

static PFN_vkVoidFunction find(get_proc get, VkInstance instance, const char *name, odtc_problem *problem) {
  PFN_vkVoidFunction found = get(instance, name);
  if (!found && !problem->code)
    odtc_fail(problem, ODTC_DEVICE, "the library of Vulkan has no %s: Vulkan 1.1 is needed", name);
  return found;
}

/* Vulkan's library closes a driver with the last instance. NVIDIA's (580) cannot be opened again more than some thirty
   times, as each time takes static memory of threads: so one instance stays. */
static void keep_driver(odtc_gpu *gpu, const VkInstanceCreateInfo *info) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static VkInstance kept;
  pthread_mutex_lock(&mutex);
  if (!kept && gpu->vk.CreateInstance(info, NULL, &kept)) kept = NULL;
  pthread_mutex_unlock(&mutex);
}

odtc_code odtc_vk_open_library(odtc_gpu *gpu, odtc_problem *problem) {
  void *library = open_library(problem);
  if (!library) return problem->code;
  get_proc get = (get_proc)dlsym(library, "vkGetInstanceProcAddr");
  if (!get) return odtc_fail(problem, ODTC_DEVICE, "the library of Vulkan has no vkGetInstanceProcAddr");
  gpu->find = get;
#define FIND(result, name, arguments) \
  gpu->vk.name = (result(*) arguments)find(get, gpu->instance, "vk" #name, problem);
  VK_OF_LOADER(FIND)
  if (problem->code) return problem->code;
  const VkApplicationInfo about = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "odtc",
                                   .apiVersion = VK_API_VERSION_1_1};
  const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                     .pApplicationInfo = &about};
  VkResult made = gpu->vk.CreateInstance(&info, NULL, &gpu->instance);
  if (made == VK_ERROR_INCOMPATIBLE_DRIVER)
    return odtc_fail(problem, ODTC_DEVICE, "no driver of Vulkan was found");
  if (odtc_vk_check(gpu, made, "an instance of Vulkan", problem)) return problem->code;
  keep_driver(gpu, &info);
  VK_OF_INSTANCE(FIND)
#undef FIND
  return problem->code;
}

#include "vk_kernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "vk_cache.h"
#include "vk_matrices.h"
#include "vk_memory.h"
#include "vk_spirv.h"

/* A driver may do anything with a kernel beyond its limits. */
static odtc_code check_limits(const odtc_gpu *gpu, const odtc_vk_kernel *k, odtc_problem *problem) {
  const VkPhysicalDeviceLimits *most = &gpu->properties.limits;
  const uint32_t *items = k->items;
  int fits = (uint64_t)items[0] * items[1] <= most->maxComputeWorkGroupInvocations &&
             (uint64_t)items[0] * items[1] * items[2] <= most->maxComputeWorkGroupInvocations;
  for (int axis = 0; axis < 3; ++axis) fits &= items[axis] <= most->maxComputeWorkGroupSize[axis];
  if (!fits)
    return odtc_fail(problem, ODTC_UNSUPPORTED,
                     "the kernel %s has work-groups of %u x %u x %u items: %.100s allows %u in all and %u x %u x %u",
                     k->name, items[0], items[1], items[2], gpu->properties.deviceName,
                     most->maxComputeWorkGroupInvocations, most->maxComputeWorkGroupSize[0],
                     most->maxComputeWorkGroupSize[1], most->maxComputeWorkGroupSize[2]);
  if (k->buffers > most->maxPerStageDescriptorStorageBuffers)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %s has %u buffers: %.100s allows %u", k->name,
                     k->buffers, gpu->properties.deviceName, most->maxPerStageDescriptorStorageBuffers);
  if (odtc_vk_count(k->offered) > most->maxPerStageDescriptorSampledImages)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %s can read %u buffers as images: %.100s allows %u", k->name,
                     odtc_vk_count(k->offered), gpu->properties.deviceName, most->maxPerStageDescriptorSampledImages);
  uint32_t room = k->is_uniform ? most->maxUniformBufferRange : most->maxPushConstantsSize;
  if (k->numbers > room / ODTC_VK_NUMBER)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %s has %u numbers: %.100s allows %u", k->name,
                     k->numbers, gpu->properties.deviceName, room / ODTC_VK_NUMBER);
  if (k->shared_bytes > most->maxComputeSharedMemorySize)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %s shares %llu bytes: %.100s allows %u", k->name,
                     (unsigned long long)k->shared_bytes, gpu->properties.deviceName,
                     most->maxComputeSharedMemorySize);
  return ODTC_OK;
}

static odtc_code make_bindings(odtc_gpu *gpu, odtc_vk_kernel *k, odtc_problem *problem) {
  uint32_t count = k->buffers + (uint32_t)k->is_uniform;
  VkDescriptorSetLayoutBinding *each = calloc(count + odtc_vk_count(k->offered) + 1, sizeof *each);
  if (!each) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for the kernel %s", k->name);
  for (uint32_t n = 0; n < count; ++n)
    each[n] = (VkDescriptorSetLayoutBinding){
        n, n < k->buffers ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1,
        VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  for (uint32_t n = 0; n < k->buffers && n < 64; ++n)
    if (k->offered >> n & 1)
      each[count++] = (VkDescriptorSetLayoutBinding){
          odtc_vk_image_binding(k, n), VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  const VkDescriptorSetLayoutCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = count, .pBindings = each};
  VkResult made = gpu->vk.CreateDescriptorSetLayout(gpu->device, &info, NULL, &k->bindings);
  free(each);
  return odtc_vk_check(gpu, made, k->name, problem);
}

static odtc_code make_layout(odtc_gpu *gpu, odtc_vk_kernel *k, odtc_problem *problem) {
  const VkPushConstantRange pushed = {VK_SHADER_STAGE_COMPUTE_BIT, 0, k->numbers * ODTC_VK_NUMBER};
  const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                           .setLayoutCount = 1,
                                           .pSetLayouts = &k->bindings,
                                           .pushConstantRangeCount = k->numbers && !k->is_uniform,
                                           .pPushConstantRanges = &pushed};
  return odtc_vk_check(gpu, gpu->vk.CreatePipelineLayout(gpu->device, &info, NULL, &k->layout), k->name,
                       problem);
}

odtc_code odtc_vk_make_shader(odtc_gpu *gpu, const odtc_gpu_kernel *from, odtc_vk_kernel *k, odtc_problem *problem) {
  const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = from->code_bytes,
                                         .pCode = from->code};
  return odtc_vk_check(gpu, gpu->vk.CreateShaderModule(gpu->device, &info, NULL, &k->shader), k->name, problem);
}

odtc_code odtc_vk_make_pipeline(odtc_gpu *gpu, const odtc_vk_kernel *k, VkPipelineCache cache, VkFlags flags,
                                VkPipeline *pipeline, odtc_problem *problem) {
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {0};
  if (k->subgroup && odtc_vk_need_subgroups(gpu, k, &size, problem)) return problem->code;
  const VkBool32 yes = 1;
  VkSpecializationMapEntry switches[64];
  VkSpecializationInfo chosen = {0, switches, sizeof yes, &yes};
  for (uint32_t n = 0; n < 64; ++n)
    if (k->images >> n & 1) switches[chosen.mapEntryCount++] = (VkSpecializationMapEntry){n, 0, sizeof yes};
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .flags = flags,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = size.sType ? &size : NULL,
                .flags = k->subgroup ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = k->shader,
                .pName = k->name,
                .pSpecializationInfo = &chosen},
      .layout = k->layout};
  VkResult made = gpu->vk.CreateComputePipelines(gpu->device, cache, 1, &info, NULL, pipeline);
  if (!odtc_vk_check(gpu, made, k->name, problem) || gpu->is_lost || problem->code == ODTC_NO_MEMORY)
    return problem->code;
  return odtc_fail(problem, ODTC_KERNEL, "%.100s cannot build the kernel %s (Vulkan error %d)",
                   gpu->properties.deviceName, k->name, (int)made);
}

odtc_code odtc_vk_need_split(odtc_gpu *gpu, odtc_vk_kernel *k, odtc_problem *problem) {
  return k->split ? ODTC_OK
                  : odtc_vk_make_pipeline(gpu, k, NULL, VK_PIPELINE_CREATE_DISPATCH_BASE, &k->split, problem);
}

/* Of the buffers that can be read as images those that are: an image may reach no further than the device says. */
static uint64_t images_of(const odtc_gpu *gpu, const odtc_gpu_kernel *from, const odtc_vk_shader *shader) {
  uint64_t most = gpu->properties.limits.maxTexelBufferElements, found = 0;
  for (uint32_t n = 0; from->uses && n < from->buffers && n < 64; ++n) {
    uint64_t pixel = shader->halves >> n & 1 ? ODTC_VK_HALVES : ODTC_VK_FLOATS;
    if (from->uses[n].most_bytes <= most * pixel) found |= shader->offered & UINT64_C(1) << n;
  }
  return found;
}

static odtc_code load(odtc_gpu *gpu, const odtc_gpu_kernel *from, VkPipelineCache cache, odtc_vk_kernel *k,
                      odtc_problem *problem) {
  odtc_vk_shader shader;
  int length = snprintf(k->name, sizeof k->name, "%s", from->name);
  if (length < 0 || (size_t)length >= sizeof k->name)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the name of the kernel %.100s... is too long", from->name);
  if (odtc_vk_read_shader(gpu, from, &shader, problem)) return problem->code;
  k->buffers = from->buffers;
  k->numbers = from->numbers;
  k->is_uniform = odtc_vk_is_uniform(from);
  k->subgroup = from->flags >> ODTC_GPU_SUBGROUP_SHIFT;
  k->read_only = shader.read_only;
  k->offered = shader.offered;
  k->halves = shader.halves;
  k->images = images_of(gpu, from, &shader);
  k->shared_bytes = shader.shared_bytes;
  for (int axis = 0; axis < 3; ++axis) k->items[axis] = shader.items[axis];
  if (check_limits(gpu, k, problem) || make_bindings(gpu, k, problem) || make_layout(gpu, k, problem) ||
      odtc_vk_make_shader(gpu, from, k, problem) ||
      odtc_vk_make_pipeline(gpu, k, cache, 0, &k->pipeline, problem))
    return problem->code;
  if (gpu->properties.limits.maxComputeWorkGroupCount[0] < INT32_MAX) return ODTC_OK;
  gpu->vk.DestroyShaderModule(gpu->device, k->shader, NULL); /* no launch is ever split */
  k->shader = NULL;
  return ODTC_OK;
}

odtc_code odtc_vk_load(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem) {
  odtc_vk_cache cache;
  gpu->kernels = calloc(count + 1, sizeof *gpu->kernels);
  if (!gpu->kernels) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu kernels", count);
  gpu->kernel_count = count;
  if (odtc_vk_open_cache(gpu, gpu->cache, kernels, count, &cache, problem)) return problem->code;
  odtc_code code = ODTC_OK;
  for (size_t n = 0; n < count && !code; ++n)
    code = load(gpu, kernels + n, cache.cache, gpu->kernels + n, problem);
  if (code) cache.path[0] = '\0';
  odtc_vk_close_cache(gpu, &cache);
  return code;
}

void odtc_vk_unload(odtc_gpu *gpu) {
  for (size_t n = 0; n < gpu->kernel_count; ++n) {
    odtc_vk_kernel *k = gpu->kernels + n;
    gpu->vk.DestroyPipeline(gpu->device, k->pipeline, NULL);
    gpu->vk.DestroyPipeline(gpu->device, k->split, NULL);
    gpu->vk.DestroyShaderModule(gpu->device, k->shader, NULL);
    gpu->vk.DestroyPipelineLayout(gpu->device, k->layout, NULL);
    gpu->vk.DestroyDescriptorSetLayout(gpu->device, k->bindings, NULL);
  }
  free(gpu->kernels);
  gpu->kernels = NULL;
  gpu->kernel_count = 0;
}

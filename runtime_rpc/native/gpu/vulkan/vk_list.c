#include "vk_list.h"

#include <stdlib.h>
#include <string.h>

#include "vk_hazards.h"
#include "vk_kernels.h"

/* What launches need in all. */
typedef struct {
  uint32_t buffers, uniforms, images, most_buffers;
  size_t numbers;
  uint64_t uniform_bytes;
} sums;

/* What a list is made with, and does not keep. */
typedef struct {
  odtc_vk_hazards hazards;
  odtc_vk_access *accesses;
  VkDescriptorBufferInfo *buffers;
  size_t numbers;   /* of the launches before */
  uint64_t uniform; /* bytes of these */
} making;

static uint64_t uniform_room(const odtc_gpu *gpu, const odtc_vk_kernel *k) {
  uint64_t unit = gpu->properties.limits.minUniformBufferOffsetAlignment;
  if (unit < ODTC_VK_NUMBER) unit = ODTC_VK_NUMBER;
  return ((uint64_t)k->numbers * ODTC_VK_NUMBER + unit - 1) / unit * unit;
}

static sums count_all(const odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count) {
  sums all = {0};
  for (size_t n = 0; n < count; ++n) {
    const odtc_vk_kernel *k = gpu->kernels + launches[n].kernel;
    all.buffers += k->buffers;
    all.uniforms += (uint32_t)k->is_uniform;
    all.images += odtc_vk_count(k->offered);
    if (k->buffers > all.most_buffers) all.most_buffers = k->buffers;
    all.numbers += k->numbers;
    if (k->is_uniform) all.uniform_bytes += uniform_room(gpu, k);
  }
  return all;
}

static odtc_code check_launch(const odtc_gpu *gpu, const odtc_gpu_launch *launch, odtc_problem *problem) {
  if (launch->kernel >= gpu->kernel_count)
    return odtc_fail(problem, ODTC_DAMAGED, "a launch is of kernel %u: there are %zu", launch->kernel,
                     gpu->kernel_count);
  const odtc_vk_kernel *k = gpu->kernels + launch->kernel;
  if (memcmp(launch->items, k->items, sizeof k->items))
    return odtc_fail(problem, ODTC_DAMAGED,
                     "a launch of %s has %u x %u x %u items to a group: its code has %u x %u x %u", k->name,
                     launch->items[0], launch->items[1], launch->items[2], k->items[0], k->items[1],
                     k->items[2]);
  for (int axis = 1; axis < 3; ++axis) {
    uint32_t most = gpu->properties.limits.maxComputeWorkGroupCount[axis];
    if (launch->groups[axis] > most)
      return odtc_fail(problem, ODTC_UNSUPPORTED,
                       "the kernel %s has %u work-groups along axis %d: %.100s allows %u", k->name,
                       launch->groups[axis], axis, gpu->properties.deviceName, most);
  }
  return ODTC_OK;
}

static odtc_code allocate(odtc_gpu *gpu, const sums *all, size_t count, odtc_gpu_list *l, making *m,
                          odtc_problem *problem) {
  l->count = count;
  l->launches = calloc(count + 1, sizeof *l->launches);
  l->numbers = calloc(all->numbers + 1, sizeof *l->numbers);
  m->accesses = calloc(all->most_buffers + 1, sizeof *m->accesses);
  m->buffers = calloc(all->most_buffers + 1, sizeof *m->buffers);
  if (!l->launches || !l->numbers || !m->accesses || !m->buffers)
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu launches", count);
  if (all->uniform_bytes &&
      odtc_vk_make_buffer(gpu, ODTC_VK_SHARED, all->uniform_bytes, &l->uniform, problem))
    return problem->code;
  const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, all->buffers + 1},
                                        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, all->uniforms + 1},
                                        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, all->images + 1}};
  const VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                           .maxSets = (uint32_t)count + 1,
                                           .poolSizeCount = sizeof sizes / sizeof *sizes,
                                           .pPoolSizes = sizes};
  const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = gpu->compute.commands,
                                                .commandBufferCount = 1};
  return odtc_vk_check(gpu, gpu->vk.CreateDescriptorPool(gpu->device, &pool, NULL, &l->sets),
                       "descriptors of a step", problem)
             ? problem->code
             : odtc_vk_check(gpu, gpu->vk.AllocateCommandBuffers(gpu->device, &commands, &l->commands),
                             "a command buffer", problem);
}

/* Where a kernel could read images, some have to be bound, whether it reads them or not. */
static odtc_code bind_images(odtc_gpu *gpu, const odtc_gpu_launch *from, const odtc_vk_launch *to,
                             odtc_problem *problem) {
  const odtc_vk_kernel *k = to->kernel;
  for (uint32_t n = 0; n < k->buffers && n < 64; ++n) {
    if (!(k->offered >> n & 1)) continue;
    const VkBufferView *view;
    if (odtc_vk_find_view(gpu, from->buffers[n], k->halves >> n & 1, &view, problem)) return problem->code;
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .dstSet = to->set,
                                        .dstBinding = odtc_vk_image_binding(k, n),
                                        .descriptorCount = 1,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
                                        .pTexelBufferView = view};
    gpu->vk.UpdateDescriptorSets(gpu->device, 1, &write, 0, NULL);
  }
  return ODTC_OK;
}

/* Gives a launch the set of its buffers. */
static odtc_code bind_buffers(odtc_gpu *gpu, const odtc_gpu_launch *from, odtc_gpu_list *l, odtc_vk_launch *to,
                              making *m, odtc_problem *problem) {
  const odtc_vk_kernel *k = to->kernel;
  const VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = l->sets,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &k->bindings};
  if (odtc_vk_check(gpu, gpu->vk.AllocateDescriptorSets(gpu->device, &info, &to->set), k->name, problem))
    return problem->code;
  for (uint32_t n = 0; n < k->buffers; ++n)
    m->buffers[n] = (VkDescriptorBufferInfo){from->buffers[n]->buffer, 0, VK_WHOLE_SIZE};
  VkDescriptorBufferInfo uniform = {NULL, m->uniform, k->numbers * ODTC_VK_NUMBER};
  VkWriteDescriptorSet writes[2];
  uint32_t count = 0;
  if (k->buffers) /* one binding after the other */
    writes[count++] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                             .dstSet = to->set,
                                             .descriptorCount = k->buffers,
                                             .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                             .pBufferInfo = m->buffers};
  if (k->is_uniform) {
    uniform.buffer = l->uniform->buffer;
    memcpy(l->uniform->host + m->uniform, to->numbers, k->numbers * sizeof *to->numbers);
    m->uniform += uniform_room(gpu, k);
    to->numbers = NULL;
    writes[count++] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                             .dstSet = to->set,
                                             .dstBinding = k->buffers,
                                             .descriptorCount = 1,
                                             .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                                             .pBufferInfo = &uniform};
  }
  gpu->vk.UpdateDescriptorSets(gpu->device, count, writes, 0, NULL);
  return bind_images(gpu, from, to, problem);
}

/* Whether a launch has to wait for those before it: -1 where there is no memory to say so. */
static int waits(const odtc_gpu_launch *launch, const odtc_vk_kernel *k, making *m) {
  for (uint32_t n = 0; n < k->buffers; ++n) {
    const odtc_gpu_range all = {0, UINT64_MAX}, *range = launch->ranges ? launch->ranges + n : &all;
    int reads = n < 64 && k->read_only >> n & 1;
    uint64_t end = range->bytes > UINT64_MAX - range->offset ? UINT64_MAX : range->offset + range->bytes;
    m->accesses[n] = (odtc_vk_access){launch->buffers[n], range->offset, end, !reads};
  }
  return odtc_vk_next(&m->hazards, m->accesses, k->buffers);
}

static odtc_code add(odtc_gpu *gpu, const odtc_gpu_launch *from, odtc_gpu_list *l, odtc_vk_launch *to,
                     making *m, odtc_problem *problem) {
  odtc_vk_kernel *k = gpu->kernels + from->kernel;
  int is_split = from->groups[0] > gpu->properties.limits.maxComputeWorkGroupCount[0];
  if (is_split && odtc_vk_need_split(gpu, k, problem)) return problem->code;
  to->kernel = k;
  to->pipeline = is_split ? k->split : k->pipeline;
  memcpy(to->groups, from->groups, sizeof to->groups);
  if (k->numbers) {
    uint64_t *numbers = l->numbers + m->numbers;
    memcpy(numbers, from->numbers, k->numbers * sizeof *numbers);
    to->numbers = numbers;
    m->numbers += k->numbers;
  }
  to->waits = waits(from, k, m);
  if (to->waits < 0) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a list of launches");
  return bind_buffers(gpu, from, l, to, m, problem);
}

static odtc_code make(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list *l,
                      making *m, odtc_problem *problem) {
  for (size_t n = 0; n < count; ++n)
    if (check_launch(gpu, launches + n, problem)) return problem->code;
  const sums all = count_all(gpu, launches, count);
  if (allocate(gpu, &all, count, l, m, problem)) return problem->code;
  for (size_t n = 0; n < count; ++n)
    if (add(gpu, launches + n, l, l->launches + n, m, problem)) return problem->code;
  return odtc_vk_record(gpu, l, problem);
}

odtc_code odtc_vk_prepare(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list **list,
                          odtc_problem *problem) {
  making m = {{NULL, 0, 0}, NULL, NULL, 0, 0};
  odtc_gpu_list *l = calloc(1, sizeof *l);
  if (!l) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a list of launches");
  odtc_vk_enter(&gpu->lists, &l->link);
  odtc_code code = make(gpu, launches, count, l, &m, problem);
  odtc_vk_end_hazards(&m.hazards);
  free(m.accesses);
  free(m.buffers);
  if (code) odtc_vk_free_list(gpu, l);
  else *list = l;
  return code;
}

void odtc_vk_free_list(odtc_gpu *gpu, odtc_gpu_list *l) {
  gpu->vk.DestroyQueryPool(gpu->device, l->times, NULL);
  gpu->vk.DestroyDescriptorPool(gpu->device, l->sets, NULL);
  if (l->commands) gpu->vk.FreeCommandBuffers(gpu->device, gpu->compute.commands, 1, &l->commands);
  if (l->uniform) odtc_vk_end_buffer(gpu, l->uniform);
  odtc_vk_leave(&l->link);
  free(l->launches);
  free(l->numbers);
  free(l);
}

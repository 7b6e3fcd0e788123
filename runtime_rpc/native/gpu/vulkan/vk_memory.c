#include "vk_memory.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  ROUND = 256,                       /* bytes, of which each buffer has a multiple */
  SMALL = 1 << 20, PIECE = 8 << 20,  /* buffers that are cut from others, and these */
  SEEN = 64 << 10,                   /* bytes of a buffer, up to which the host may see a GPU's own memory */
  NEAR = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
  HOST = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
  CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
};

/* Properties of memory that a buffer may have, the best first; that of tensors need have none. */
typedef struct {
  int count;
  VkFlags wanted[3];
} choice;
static const choice SEEN_TENSOR = {3, {NEAR | HOST, NEAR, 0}}, TENSOR = {2, {NEAR, 0}},
                    SHARED = {2, {HOST | CACHED, HOST}};

/* A GPU with memory of its own lets the host see little of that, and through a bus; others have but one memory. */
static int has_own_memory(const odtc_gpu *gpu) {
  return gpu->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
         gpu->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
}

static const choice *choices(const odtc_gpu *gpu, odtc_vk_use use, uint64_t bytes) {
  if (use == ODTC_VK_SHARED) return &SHARED;
  return !has_own_memory(gpu) || bytes <= SEEN ? &SEEN_TENSOR : &TENSOR;
}

static VkFlags properties(const odtc_gpu *gpu, uint32_t type) {
  return gpu->memory.memoryTypes[type].propertyFlags;
}

uint64_t odtc_vk_count_memory(const odtc_gpu *gpu) {
  uint64_t most = 0;
  for (uint32_t n = 0; n < gpu->memory.memoryTypeCount && n < VK_MAX_MEMORY_TYPES; ++n) {
    uint64_t size = gpu->memory.memoryHeaps[gpu->memory.memoryTypes[n].heapIndex % VK_MAX_MEMORY_HEAPS].size;
    if ((properties(gpu, n) & NEAR) && size > most) most = size;
  }
  return most;
}

static VkResult allocate(odtc_gpu *gpu, uint32_t type, uint64_t bytes, VkDeviceMemory *memory,
                         uint8_t **host) {
  const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .allocationSize = bytes,
                                     .memoryTypeIndex = type};
  void *at = NULL;
  VkResult made = gpu->vk.AllocateMemory(gpu->device, &info, NULL, memory);
  if (made == VK_SUCCESS && (properties(gpu, type) & HOST) == HOST)
    made = gpu->vk.MapMemory(gpu->device, *memory, 0, VK_WHOLE_SIZE, 0, &at);
  if (made != VK_SUCCESS) gpu->vk.FreeMemory(gpu->device, *memory, NULL), *memory = NULL;
  *host = at;
  return made;
}

/* A piece of a type with room for a buffer; a new one where there is none. */
static VkResult find_piece(odtc_gpu *gpu, uint32_t type, const VkMemoryRequirements *needs,
                           odtc_vk_piece **found) {
  for (odtc_vk_link *each = gpu->pieces; each; each = each->next) {
    odtc_vk_piece *piece = (odtc_vk_piece *)each;
    uint64_t at = (piece->used + needs->alignment - 1) / needs->alignment * needs->alignment;
    if (piece->type == type && at + needs->size <= PIECE) return *found = piece, VK_SUCCESS;
  }
  odtc_vk_piece *piece = calloc(1, sizeof *piece);
  if (!piece) return VK_ERROR_OUT_OF_HOST_MEMORY;
  piece->type = type;
  VkResult made = allocate(gpu, type, PIECE, &piece->memory, &piece->host);
  if (made != VK_SUCCESS) return free(piece), made;
  odtc_vk_enter(&gpu->pieces, &piece->link);
  return *found = piece, VK_SUCCESS;
}

static VkResult cut(odtc_gpu *gpu, uint32_t type, const VkMemoryRequirements *needs, odtc_gpu_buffer *b) {
  odtc_vk_piece *piece;
  VkResult found = find_piece(gpu, type, needs, &piece);
  if (found != VK_SUCCESS) return found;
  uint64_t at = (piece->used + needs->alignment - 1) / needs->alignment * needs->alignment;
  VkResult bound = gpu->vk.BindBufferMemory(gpu->device, b->buffer, piece->memory, at);
  if (bound != VK_SUCCESS) return bound;
  b->piece = piece;
  b->host = piece->host ? piece->host + at : NULL;
  piece->used = at + needs->size;
  ++piece->buffers;
  return VK_SUCCESS;
}

static VkResult give_memory(odtc_gpu *gpu, uint32_t type, const VkMemoryRequirements *needs,
                            odtc_gpu_buffer *b) {
  b->is_cached = !!(properties(gpu, type) & CACHED);
  if (needs->size <= SMALL && needs->alignment <= SMALL) return cut(gpu, type, needs, b);
  VkResult made = allocate(gpu, type, needs->size, &b->memory, &b->host);
  if (made != VK_SUCCESS) return made;
  made = gpu->vk.BindBufferMemory(gpu->device, b->buffer, b->memory, 0);
  if (made != VK_SUCCESS) gpu->vk.FreeMemory(gpu->device, b->memory, NULL), b->memory = NULL;
  return made;
}

/* The first type of memory with some properties that a buffer may have; -1 if there is none. */
static int find_type(const odtc_gpu *gpu, const VkMemoryRequirements *needs, VkFlags wanted) {
  for (uint32_t type = 0; type < gpu->memory.memoryTypeCount; ++type)
    if (needs->memoryTypeBits >> type & 1 && (properties(gpu, type) & wanted) == wanted) return (int)type;
  return -1;
}

/* Gives a buffer memory of the best type that the device has, and has room in. */
static VkResult find_memory(odtc_gpu *gpu, odtc_vk_use use, odtc_gpu_buffer *b) {
  const choice *of = choices(gpu, use, b->bytes);
  VkMemoryRequirements needs;
  VkResult made = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  gpu->vk.GetBufferMemoryRequirements(gpu->device, b->buffer, &needs);
  for (int n = 0; n < of->count && made != VK_SUCCESS; ++n) {
    int type = find_type(gpu, &needs, of->wanted[n]);
    if (type >= 0) made = give_memory(gpu, (uint32_t)type, &needs, b);
  }
  return made;
}

/* A number as odtc's messages have it: 134,217,728. */
static const char *grouped(uint64_t number, char text[32]) {
  char *at = text + 31;
  *at = '\0';
  for (int digits = 0; number || !digits; number /= 10, ++digits) {
    if (digits && digits % 3 == 0) *--at = ',';
    *--at = (char)('0' + number % 10);
  }
  return at;
}

odtc_code odtc_vk_make_buffer(odtc_gpu *gpu, odtc_vk_use use, uint64_t bytes, odtc_gpu_buffer **buffer,
                              odtc_problem *problem) {
  char what[64], text[32];
  snprintf(what, sizeof what, "a buffer of %llu bytes", (unsigned long long)bytes);
  uint64_t most = gpu->properties.limits.maxStorageBufferRange;
  if (bytes > most)
    return odtc_fail(problem, ODTC_NO_MEMORY, "%s: a kernel on this device can use %s bytes of a buffer", what,
                     grouped(most, text));
  odtc_gpu_buffer *b = calloc(1, sizeof *b);
  if (!b) return odtc_fail(problem, ODTC_NO_MEMORY, "%s: there is no memory", what);
  b->bytes = bytes;
  uint32_t families[2] = {gpu->compute.family, gpu->transfer.family};
  int is_shared = families[0] != families[1];
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = (bytes + ROUND - 1) / ROUND * ROUND,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
               VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT,
      .sharingMode = is_shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
      .queueFamilyIndexCount = is_shared ? 2 : 0,
      .pQueueFamilyIndices = families};
  odtc_vk_enter(&gpu->buffers, &b->link);
  VkResult made = gpu->vk.CreateBuffer(gpu->device, &info, NULL, &b->buffer);
  if (made == VK_SUCCESS) made = find_memory(gpu, use, b);
  if (odtc_vk_check(gpu, made, what, problem)) {
    odtc_vk_end_buffer(gpu, b);
    return problem->code;
  }
  *buffer = b;
  return ODTC_OK;
}

odtc_code odtc_vk_find_view(odtc_gpu *gpu, odtc_gpu_buffer *b, int are_halves, const VkBufferView **view,
                            odtc_problem *problem) {
  VkBufferView *found = are_halves ? &b->halves : &b->floats;
  uint64_t pixel = are_halves ? ODTC_VK_HALVES : ODTC_VK_FLOATS, pixels = (b->bytes + pixel - 1) / pixel;
  uint64_t most = gpu->properties.limits.maxTexelBufferElements;
  const VkBufferViewCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
      .buffer = b->buffer,
      .format = are_halves ? VK_FORMAT_R16G16B16A16_SFLOAT : VK_FORMAT_R32G32B32A32_SFLOAT,
      .range = (pixels < most ? pixels : most) * pixel};
  *view = found;
  if (*found) return ODTC_OK;
  return odtc_vk_check(gpu, gpu->vk.CreateBufferView(gpu->device, &info, NULL, found), "an image of a buffer", problem);
}

void odtc_vk_end_buffer(odtc_gpu *gpu, odtc_gpu_buffer *b) {
  gpu->vk.DestroyBufferView(gpu->device, b->floats, NULL);
  gpu->vk.DestroyBufferView(gpu->device, b->halves, NULL);
  gpu->vk.DestroyBuffer(gpu->device, b->buffer, NULL);
  gpu->vk.FreeMemory(gpu->device, b->memory, NULL);
  if (b->piece && !--b->piece->buffers) b->piece->used = 0;
  odtc_vk_leave(&b->link);
  free(b);
}

void odtc_vk_end_memory(odtc_gpu *gpu) {
  while (gpu->buffers) odtc_vk_end_buffer(gpu, (odtc_gpu_buffer *)gpu->buffers);
  while (gpu->pieces) {
    odtc_vk_piece *piece = (odtc_vk_piece *)gpu->pieces;
    gpu->vk.FreeMemory(gpu->device, piece->memory, NULL);
    odtc_vk_leave(&piece->link);
    free(piece);
  }
}

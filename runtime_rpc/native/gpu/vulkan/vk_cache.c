/* A file is a digest of all that is behind it, and the driver's bytes. Its name says for which kernels, device and
   driver it is, so that another driver's is not read, nor a damaged one given to a driver, which need not check it. */
#include "vk_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "new_file.h"
#include "sha256.h"

enum { NAME = 32 }; /* digits of a digest in a file's name */

/* A digest of pieces, each of which is hashed on its own: their digests are whole blocks, two by two. */
typedef struct {
  odtc_sha256_sum sum;
  uint8_t block[ODTC_SHA256_BLOCK];
} digest_of_all;

static void add(digest_of_all *all, const void *data, size_t bytes) {
  memset(all->block, 0, sizeof all->block);
  odtc_sha256(data, bytes, all->block);
  odtc_sha256_add(&all->sum, all->block, 1);
}

/* The identity of the driver and the device as the driver gives it. */
static void add_device(odtc_gpu *gpu, digest_of_all *all) {
  VkPhysicalDeviceIDProperties ids = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 about = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &ids};
  gpu->vk.GetPhysicalDeviceProperties2(gpu->physical, &about);
  const uint32_t numbers[] = {about.properties.apiVersion, about.properties.driverVersion,
                              about.properties.vendorID, about.properties.deviceID};
  add(all, numbers, sizeof numbers);
  add(all, about.properties.pipelineCacheUUID, VK_UUID_SIZE);
  add(all, ids.deviceUUID, VK_UUID_SIZE);
  add(all, ids.driverUUID, VK_UUID_SIZE);
}

static void name_file(odtc_gpu *gpu, const char *folder, const odtc_gpu_kernel *kernels, size_t count,
                      odtc_vk_cache *cache) {
  digest_of_all all;
  uint8_t digest[ODTC_SHA256_BYTES];
  char text[ODTC_HEX_BYTES];
  odtc_sha256_begin(&all.sum);
  add_device(gpu, &all);
  for (size_t n = 0; n < count; ++n) add(&all, kernels[n].code, kernels[n].code_bytes);
  odtc_sha256_end(&all.sum, all.block, 0, digest);
  odtc_digest_text(digest, text);
  int length = snprintf(cache->path, sizeof cache->path, "%s/vulkan-%.*s.bin", folder, NAME, text);
  if (length < 0 || (size_t)length >= sizeof cache->path) cache->path[0] = '\0';
}

/* Maps a file that is whole; no bytes if there is none. */
static odtc_pages map_whole(const char *path) {
  odtc_problem none = {0};
  odtc_pages pages = {NULL, 0};
  uint8_t digest[ODTC_SHA256_BYTES];
  if (!*path || odtc_map_file(path, &pages, &none)) return (odtc_pages){NULL, 0};
  if (pages.bytes > sizeof digest) {
    odtc_sha256(pages.at + sizeof digest, pages.bytes - sizeof digest, digest);
    if (!memcmp(digest, pages.at, sizeof digest)) return pages;
  }
  odtc_unmap(&pages);
  return pages;
}

odtc_code odtc_vk_open_cache(odtc_gpu *gpu, const char *folder, const odtc_gpu_kernel *kernels, size_t count,
                             odtc_vk_cache *cache, odtc_problem *problem) {
  *cache = (odtc_vk_cache){.path = ""};
  if (folder) name_file(gpu, folder, kernels, count, cache);
  odtc_pages pages = map_whole(cache->path);
  const VkPipelineCacheCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
      .initialDataSize = pages.bytes ? pages.bytes - ODTC_SHA256_BYTES : 0,
      .pInitialData = pages.bytes ? pages.at + ODTC_SHA256_BYTES : NULL};
  VkResult made = gpu->vk.CreatePipelineCache(gpu->device, &info, NULL, &cache->cache);
  cache->bytes = info.initialDataSize;
  odtc_unmap(&pages);
  return odtc_vk_check(gpu, made, "a cache of what the driver compiles", problem);
}

static void keep(odtc_gpu *gpu, const odtc_vk_cache *cache) {
  odtc_problem none = {0};
  odtc_new_file file;
  uint8_t digest[ODTC_SHA256_BYTES];
  size_t bytes = 0;
  if (gpu->vk.GetPipelineCacheData(gpu->device, cache->cache, &bytes, NULL) != VK_SUCCESS || !bytes) return;
  void *data = malloc(bytes);
  if (!data) return;
  if (gpu->vk.GetPipelineCacheData(gpu->device, cache->cache, &bytes, data) == VK_SUCCESS) {
    odtc_sha256(data, bytes, digest);
    odtc_begin_file(&file, cache->path);
    odtc_add_to_file(&file, digest, sizeof digest);
    odtc_add_to_file(&file, data, bytes);
    odtc_end_file(&file, cache->path, &none);
  }
  free(data);
}

void odtc_vk_close_cache(odtc_gpu *gpu, odtc_vk_cache *cache) {
  if (*cache->path && !cache->bytes) keep(gpu, cache);
  gpu->vk.DestroyPipelineCache(gpu->device, cache->cache, NULL);
  cache->cache = NULL;
}

/* What OpenCL says of a kernel. */
#include "opencl.h"

static const struct {
  cl_uint number;
  size_t bytes;
  const char *name;
} ASKED[] = {
    {CL_KERNEL_LOCAL_MEM_SIZE, sizeof(cl_ulong), "shared bytes"},
    {CL_KERNEL_PRIVATE_MEM_SIZE, sizeof(cl_ulong), "private bytes"},
    {CL_KERNEL_WORK_GROUP_SIZE, sizeof(size_t), "most items"},
    {CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof(size_t), "items at once"},
};

odtc_code odtc_opencl_describe(odtc_gpu *gpu, uint32_t number, const odtc_gpu_kernel *from, odtc_gpu_figures *figures,
                               odtc_problem *problem) {
  const struct odtc_opencl_kernel *loaded = gpu->kernels + number;
  (void)from;
  cl_int code;
  cl_kernel kernel = gpu->cl->clCreateKernel(loaded->program, loaded->name, &code);
  if (code) return odtc_opencl_fail(problem, code, loaded->name);
  for (size_t n = 0; n < sizeof ASKED / sizeof *ASKED; ++n) {
    union {
      cl_ulong all;
      size_t size;
    } found = {0};
    if (!gpu->cl->clGetKernelWorkGroupInfo(kernel, gpu->device, ASKED[n].number, ASKED[n].bytes, &found, NULL))
      odtc_add_figure(figures, ASKED[n].name, ASKED[n].bytes == sizeof found.all ? (double)found.all : (double)found.size);
  }
  gpu->cl->clReleaseKernel(kernel);
  odtc_add_images(figures, loaded->images[ODTC_OPENCL_FLOATS] | loaded->images[ODTC_OPENCL_HALVES]);
  return ODTC_OK;
}

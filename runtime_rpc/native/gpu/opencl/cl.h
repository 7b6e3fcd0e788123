/* OpenCL 1.2 as far as it is used, with its own names and numbers: Khronos's headers are not where Android is built for. */
#ifndef ODTC_CL_H
#define ODTC_CL_H

#include <stddef.h>
#include <stdint.h>

#include "problem.h"

typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_ *cl_context;
typedef struct cl_queue *cl_command_queue;
typedef struct cl_memory *cl_mem;
typedef struct cl_program_ *cl_program;
typedef struct cl_kernel_ *cl_kernel;
typedef struct cl_event_ *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;

enum {
  CL_SUCCESS = 0,
  CL_COMPLETE = 0, /* of a command; greater: not yet, less: it failed */
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_INVALID_KERNEL_NAME = -46,
  CL_INVALID_WORK_GROUP_SIZE = -54,
  CL_INVALID_BUFFER_SIZE = -61,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_IMAGE_SUPPORT = 0x1016,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_IMAGE_MAX_BUFFER_SIZE = 0x1040,
  CL_RGBA = 0x10B5,
  CL_HALF_FLOAT = 0x10DD,
  CL_FLOAT = 0x10DE,
  CL_MEM_OBJECT_IMAGE1D_BUFFER = 0x10F6,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
  CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
  CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x11B3,
  CL_KERNEL_PRIVATE_MEM_SIZE = 0x11B4,
  CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
  CL_PROFILING_COMMAND_START = 0x1282,
  CL_PROFILING_COMMAND_END = 0x1283
};
#define CL_DEVICE_TYPE_ALL ((cl_ulong)0xFFFFFFFF)
#define CL_DEVICE_TYPE_GPU ((cl_ulong)4)
#define CL_QUEUE_PROFILING_ENABLE ((cl_ulong)2)
#define CL_MEM_READ_WRITE ((cl_ulong)1)
#define CL_MEM_READ_ONLY ((cl_ulong)4)

typedef struct {
  cl_uint image_channel_order, image_channel_data_type;
} cl_image_format;

typedef struct {
  cl_uint image_type;
  size_t image_width, image_height, image_depth, image_array_size, image_row_pitch, image_slice_pitch;
  cl_uint num_mip_levels, num_samples;
  cl_mem buffer;
} cl_image_desc;

/* Each function: what it returns, its name, what it takes. */
#define ODTC_CL_FUNCTIONS(X)                                                                                         \
  X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                \
  X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_ulong, cl_uint, cl_device_id *, cl_uint *))                          \
  X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                      \
  X(cl_context, clCreateContext,                                                                                     \
    (const intptr_t *, cl_uint, const cl_device_id *, void (*)(const char *, const void *, size_t, void *), void *,  \
     cl_int *))                                                                                                      \
  X(cl_int, clReleaseContext, (cl_context))                                                                          \
  X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_ulong, cl_int *))                          \
  X(cl_int, clReleaseCommandQueue, (cl_command_queue))                                                               \
  X(cl_mem, clCreateBuffer, (cl_context, cl_ulong, size_t, void *, cl_int *))                                        \
  X(cl_mem, clCreateImage,                                                                                           \
    (cl_context, cl_ulong, const cl_image_format *, const cl_image_desc *, void *, cl_int *))                        \
  X(cl_int, clReleaseMemObject, (cl_mem))                                                                            \
  X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))           \
  X(cl_program, clCreateProgramWithBinary,                                                                           \
    (cl_context, cl_uint, const cl_device_id *, const size_t *, const uint8_t **, cl_int *, cl_int *))               \
  X(cl_int, clBuildProgram,                                                                                          \
    (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *))                 \
  X(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                       \
  X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                    \
  X(cl_int, clReleaseProgram, (cl_program))                                                                          \
  X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                                 \
  X(cl_int, clReleaseKernel, (cl_kernel))                                                                            \
  X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                              \
  X(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))                  \
  X(cl_int, clEnqueueNDRangeKernel,                                                                                  \
    (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,                  \
     const cl_event *, cl_event *))                                                                                  \
  X(cl_int, clEnqueueReadBuffer,                                                                                     \
    (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))              \
  X(cl_int, clEnqueueWriteBuffer,                                                                                    \
    (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))        \
  X(cl_int, clEnqueueCopyBuffer,                                                                                     \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))               \
  X(cl_int, clEnqueueFillBuffer,                                                                                     \
    (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))         \
  X(cl_int, clWaitForEvents, (cl_uint, const cl_event *))                                                            \
  X(cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                           \
  X(cl_int, clReleaseEvent, (cl_event))                                                                              \
  X(cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                  \
  X(cl_int, clFlush, (cl_command_queue))                                                                             \
  X(cl_int, clFinish, (cl_command_queue))

/* The functions of the system's library. */
typedef struct {
#define X(result, name, arguments) result(*name) arguments;
  ODTC_CL_FUNCTIONS(X)
#undef X
} odtc_cl;

/* Those, once the library was found; it stays loaded, as drivers want it. NULL, and a problem, where there is none. */
const odtc_cl *odtc_cl_functions(odtc_problem *problem);

#endif

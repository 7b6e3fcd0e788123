#include "kernels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "memory.h"
#include "raised.h"

void odtc_leave_module(odtc_module *module) {
  if (--module->uses) return;
  odtc_library_close(&module->library);
  free(module);
}

void odtc_free_kernel(odtc_module_kernel *kernel) {
  odtc_leave_module(kernel->module);
  free(kernel);
}

/* Loads a file under a name that nothing was loaded by: a loader gives back what it has of the same name,
   which may be that of a file that was there before. */
static int load_file(odtc_session *s, const char *name, odtc_library *library) {
  static unsigned loaded;
  char path[40];
  odtc_problem problem;
  snprintf(path, sizeof path, "./.loaded-%u", ++loaded);
  if (rename(name, path + 2)) {
    odtc_refuse(s, "%.100s: %s", name, strerror(errno));
    return 0;
  }
  odtc_code code = odtc_library_load(path, library, &problem);
  if (code) odtc_refuse(s, "%.100s: %s", name, problem.text);
  if (rename(path + 2, name)) odtc_refuse(s, "%.100s: %s", name, strerror(errno));
  return !s->failure[0];
}

static void load_module(odtc_session *s, const odtc_value *v, odtc_result *result) {
  if (!odtc_is_own_file(s, v->bytes)) return;
  odtc_module *module = calloc(1, sizeof *module);
  if (!module) {
    odtc_refuse(s, "there is no memory for a module");
    return;
  }
  module->uses = 1;
  result->type = VALUE_MODULE;
  if (!load_file(s, v->bytes, &module->library) ||
      !(result->number = odtc_keep(s, ODTC_A_MODULE, module, 0)))
    odtc_leave_module(module);
}

/* What TVM's client asks a library for that it takes for one of its virtual machine's. */
static const char MACHINE[] = "vm_load_executable";

int64_t odtc_keep_kernel(odtc_session *s, const odtc_value *v, const char *name, odtc_kind kind,
                         const odtc_timing *timing) {
  char symbol[300];
  odtc_object *object = odtc_object_of(s, v->number, ODTC_A_MODULE);
  if (!object) return 0;
  odtc_module *module = object->at;
  if (!strcmp(name, MACHINE)) {
    odtc_refuse(s, "TVM's virtual machine does not run here: call kernels by their names, or give an "
                   "artifact's program.bin, parameters.safetensors and step.so to odtc.program.open");
    return 0;
  }
  int length = snprintf(symbol, sizeof symbol, "__tvm_ffi_%s", name);
  odtc_kernel code = (size_t)length < sizeof symbol
                         ? odtc_library_kernel(&module->library, symbol)
                         : NULL;
  if (!code) return 0;
  odtc_module_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return odtc_refuse(s, "there is no memory for a kernel"), 0;
  *kernel = (odtc_module_kernel){.module = module, .code = code};
  snprintf(kernel->name, sizeof kernel->name, "%.255s", name);
  if (timing) kernel->timing = *timing;
  ++module->uses;
  int64_t handle = odtc_keep(s, kind, kernel, 0);
  if (!handle) odtc_free_kernel(kernel);
  return handle;
}

/* None where there is no such kernel: the client says so. */
static void get_function(odtc_session *s, const odtc_value *v, odtc_result *result) {
  int64_t handle = odtc_keep_kernel(s, v, v[1].bytes, ODTC_A_KERNEL, NULL);
  if (handle) *result = (odtc_result){.type = VALUE_FUNCTION, .number = handle};
}

/* Kernels count on where their tensors begin. */
static int take_tensor(odtc_session *s, const odtc_remote_tensor *from, int32_t number,
                       odtc_kernel_tensor *to) {
  uint8_t *data = odtc_remote_place(s, from, odtc_remote_bytes(from));
  if (!data) return 1;
  if ((uintptr_t)data % ODTC_ALIGNMENT) {
    odtc_refuse(s, "argument %d does not begin at a multiple of %d bytes", (int)number,
                (int)ODTC_ALIGNMENT);
    return 1;
  }
  *to = (odtc_kernel_tensor){.data = data, .device_type = ODTC_KERNEL_CPU, .rank = from->rank,
                             .code = from->code, .bits = from->bits, .lanes = from->lanes,
                             .shape = (int64_t *)from->shape};
  return 0;
}

int odtc_take_arguments(odtc_session *s, const odtc_values *from, odtc_kernel_arguments *to) {
  memset(to, 0, sizeof *to);
  for (int32_t n = 0; n < from->count; ++n) {
    const odtc_value *value = from->values + n;
    to->values[n].type = value->type;
    if (value->type == VALUE_TENSOR) {
      if (take_tensor(s, &value->tensor, n, to->tensors + n)) return 1;
      to->values[n].value.pointer = to->tensors + n;
    } else if (value->type == VALUE_REAL) {
      to->values[n].value.real = value->real;
    } else if (value->type == VALUE_NUMBER || value->type == VALUE_BOOL) {
      to->values[n].value.number = value->number;
    } else {
      odtc_refuse(s, "argument %d is neither a tensor nor a number", (int)n);
      return 1;
    }
  }
  to->count = from->count;
  return 0;
}

/* One thread, until the client says how many: no kernel has fewer workspaces. */
static int has_pool(odtc_session *s) {
  odtc_problem problem;
  if (s->pool || !odtc_pool_make(1, NULL, NULL, 0, &s->pool, &problem)) return 1;
  odtc_refuse(s, "%s", problem.text);
  return 0;
}

int odtc_run_kernel(odtc_session *s, const odtc_module_kernel *kernel,
                    const odtc_kernel_arguments *arguments) {
  odtc_pool *before;
  odtc_kernel_value result = {0};
  if (!has_pool(s)) return 1;
  if (odtc_pool_use(s->pool, &before)) {
    odtc_refuse(s, "there is no memory for a variable of this thread");
    return 1;
  }
  int failed = kernel->code(NULL, arguments->values, arguments->count, &result);
  odtc_pool_use(before, &before);
  if (failed) {
    char why[400];
    odtc_take_raised(why, sizeof why);
    odtc_refuse(s, "the kernel %s failed%s%s", kernel->name, *why ? ": " : "", why);
  }
  return failed;
}

void odtc_call_kernel(odtc_session *s, const void *kernel, const odtc_values *values,
                      odtc_result *result) {
  (void)result;
  odtc_kernel_arguments arguments;
  if (!odtc_take_arguments(s, values, &arguments)) odtc_run_kernel(s, kernel, &arguments);
}

const odtc_named_function ODTC_KERNEL_FUNCTIONS[] = {
    {"tvm.rpc.server.load_module", "s", load_module},
    {"tvm.rpc.server.ModuleGetFunction", "msi", get_function},
    {"runtime.RPCTimeEvaluator", "msiiiiiiiiis", odtc_make_timer},
    {NULL, NULL, NULL},
};

"""Numbers of the SPIR-V format, version 1.3, as far as kernels use them."""

from enum import IntEnum


class Op(IntEnum):
    """Instructions."""

    NAME = 5
    EXTENSION = 10
    EXT_INST_IMPORT = 11
    EXT_INST = 12
    MEMORY_MODEL = 14
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_VOID = 19
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_IMAGE = 25
    TYPE_ARRAY = 28
    TYPE_RUNTIME_ARRAY = 29
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    TYPE_FUNCTION = 33
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    SPEC_CONSTANT_FALSE = 49
    FUNCTION = 54
    FUNCTION_END = 56
    VARIABLE = 59
    LOAD = 61
    STORE = 62
    ACCESS_CHAIN = 65
    DECORATE = 71
    MEMBER_DECORATE = 72
    COMPOSITE_CONSTRUCT = 80
    COMPOSITE_EXTRACT = 81
    IMAGE_FETCH = 95
    CONVERT_F_TO_U = 109
    CONVERT_F_TO_S = 110
    CONVERT_S_TO_F = 111
    CONVERT_U_TO_F = 112
    U_CONVERT = 113
    S_CONVERT = 114
    F_CONVERT = 115
    BITCAST = 124
    I_ADD = 128
    F_ADD = 129
    I_SUB = 130
    F_SUB = 131
    I_MUL = 132
    F_MUL = 133
    U_DIV = 134
    S_DIV = 135
    F_DIV = 136
    U_MOD = 137
    F_REM = 140
    LOGICAL_EQUAL = 164
    LOGICAL_NOT_EQUAL = 165
    LOGICAL_OR = 166
    LOGICAL_AND = 167
    LOGICAL_NOT = 168
    SELECT = 169
    I_EQUAL = 170
    I_NOT_EQUAL = 171
    U_GREATER_THAN = 172
    S_GREATER_THAN = 173
    U_GREATER_THAN_EQUAL = 174
    S_GREATER_THAN_EQUAL = 175
    U_LESS_THAN = 176
    S_LESS_THAN = 177
    U_LESS_THAN_EQUAL = 178
    S_LESS_THAN_EQUAL = 179
    F_ORD_EQUAL = 180
    F_UNORD_NOT_EQUAL = 183
    F_ORD_LESS_THAN = 184
    F_ORD_GREATER_THAN = 186
    F_ORD_LESS_THAN_EQUAL = 188
    F_ORD_GREATER_THAN_EQUAL = 190
    SHIFT_RIGHT_LOGICAL = 194
    SHIFT_RIGHT_ARITHMETIC = 195
    SHIFT_LEFT_LOGICAL = 196
    BITWISE_OR = 197
    BITWISE_XOR = 198
    BITWISE_AND = 199
    NOT = 200
    CONTROL_BARRIER = 224
    PHI = 245
    LOOP_MERGE = 246
    SELECTION_MERGE = 247
    LABEL = 248
    BRANCH = 249
    BRANCH_CONDITIONAL = 250
    RETURN = 253
    TYPE_COOPERATIVE_MATRIX = 4456
    COOPERATIVE_MATRIX_LOAD = 4457
    COOPERATIVE_MATRIX_STORE = 4458
    COOPERATIVE_MATRIX_MUL_ADD = 4459


class Glsl(IntEnum):
    """Instructions of the extended set GLSL.std.450."""

    ROUND_EVEN = 2
    TRUNC = 3
    F_ABS = 4
    FLOOR = 8
    CEIL = 9
    SIN = 13
    COS = 14
    TAN = 15
    ASIN = 16
    ACOS = 17
    ATAN = 18
    SINH = 19
    COSH = 20
    ASINH = 22
    ACOSH = 23
    ATANH = 24
    ATAN2 = 25
    EXP = 27
    LOG = 28
    EXP2 = 29
    LOG2 = 30
    SQRT = 31
    INVERSE_SQRT = 32
    U_MIN = 38
    S_MIN = 39
    U_MAX = 41
    S_MAX = 42
    FMA = 50


class Capability(IntEnum):
    """Capabilities that a module asks of a device, beside those that each device has."""

    SHADER = 1
    FLOAT16 = 9
    FLOAT64 = 10
    INT64 = 11
    INT16 = 22
    INT8 = 39
    SAMPLED_BUFFER = 46
    GROUP_NON_UNIFORM = 61
    STORAGE_BUFFER_16BIT = 4433
    STORAGE_BUFFER_8BIT = 4448
    VULKAN_MEMORY_MODEL = 5345
    COOPERATIVE_MATRIX = 6022


class StorageClass(IntEnum):
    """Storage classes of variables."""

    UNIFORM_CONSTANT = 0
    INPUT = 1
    UNIFORM = 2
    WORKGROUP = 4
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12


class Decoration(IntEnum):
    """Decorations of types and variables."""

    SPEC_ID = 1
    BLOCK = 2
    ARRAY_STRIDE = 6
    BUILT_IN = 11
    NON_WRITABLE = 24
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35


class BuiltIn(IntEnum):
    """Builtin variables, which the device sets."""

    WORKGROUP_ID = 26
    LOCAL_INVOCATION_ID = 27
    SUBGROUP_ID = 40
    SUBGROUP_LOCAL_INVOCATION_ID = 41


# The only execution model, memory model and the like that kernels use.
GL_COMPUTE, LOCAL_SIZE = 5, 17
LOGICAL_ADDRESSING, GLSL450_MODEL, VULKAN_MODEL = 0, 1, 3
UNROLL = 1
WORKGROUP_SCOPE, SUBGROUP_SCOPE, ACQUIRE_RELEASE = 2, 3, 0x8
# Of an image: a buffer's pixels, read without a sampler, in the format that a view of it has.
BUFFER_IMAGE, FETCHED, UNKNOWN_FORMAT = 5, 1, 0
# Memory semantics of workgroup memory.
WORKGROUP_MEMORY = 0x100
# Under Vulkan's memory model: an access of memory that others reach, and what a barrier does to it.
NON_PRIVATE, MAKE_AVAILABLE, MAKE_VISIBLE = 0x20, 0x2000, 0x4000

"""The bytes of a device module, read by a reader of the tests' own."""

import re

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.backends.gpu.source import aligned, alone, hinted, with_images
from tests.gpu.spirv.module_reader import opencl_module


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("phone")
    onnx.save(digits_model(), folder / "m.onnx")
    artifact = odtc.compile(folder / "m.onnx", "android-opencl", batch=8)
    return artifact._bundle.library.read_bytes()


def test_the_format(library: bytes) -> None:
    """Format, kernels with the types of their arguments and launch sizes, then the source."""
    kernels, parts = opencl_module(library)
    assert parts.keys() == kernels.keys()
    for name, part in parts.items():
        (declared,) = re.findall(rf"__kernel void (?:__attribute__.*? )?{name}\((.*?)\)", part)
        assert len(declared.split(",")) == len(kernels[name])


def test_a_kernel_stands_alone_and_is_short(library: bytes) -> None:
    source = library[library.index(b"// Function: ") :].decode(errors="replace")
    assert not re.search(r"^__kernel void \w+\([^;{]*\);$", source, re.M)
    assert "#pragma unroll" in source


def test_hints() -> None:
    loops = "  for (int i = 0; i < 16; ++i) {\n  }\n  for (int i = 0; i < 17; ++i) {\n  }\n"
    assert hinted(loops) == "  #pragma unroll\n" + loops


def test_no_hint_at_a_loop_that_items_wait_in() -> None:
    """Slices of a product are a loop, however few they are; what is done with one has hints."""
    inner = "    for (int j = 0; j < 8; ++j) {\n    }\n"
    wait = "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    loop = "  for (int i = 0; i < 2; ++i) {\n"
    found = hinted(loop + inner + wait + "  }\n" + loop + "  }\n")
    hint = "#pragma unroll\n"
    assert found == f"{loop}    {hint}{inner}{wait}  }}\n  {hint}{loop}  }}\n"


def test_no_hint_at_a_long_body() -> None:
    """What is written out already would be compiled as often as the loop has turns."""
    body = "    x[0] = x[0] + y[0];\n" * 100
    loop = f"  for (int i = 0; i < 4; ++i) {{\n{body}  }}\n"
    assert hinted(loop) == loop


def test_declarations_of_others() -> None:
    body = "__kernel void a(__global float* x) {\n}\n"
    assert alone("__kernel void b(__global float* y, int n);\n" + body) == body


def test_vectors_of_shared_memory_are_read_at_once(library: bytes) -> None:
    body = (
        "  __local float near[540];\n"
        "  a[0] = vload4(0, near + ((k * 68) + (y * 4)));\n"
        "  b[0] = vload4(0, far + 1);\n"
    )
    assert aligned(body) == (
        "  __local float near[540] __attribute__((aligned(16)));\n"
        "  a[0] = *(__local float4*)(near + ((k * 68) + (y * 4)));\n"
        "  b[0] = vload4(0, far + 1);\n"
    )
    source = library[library.index(b"// Function: ") :].decode(errors="replace")
    assert "*(__local float4*)(" in source


def test_vectors_of_tensors_are_read_at_once() -> None:
    """Where TVM cannot tell that an offset is a multiple, it reads each element by itself."""
    places = ", ".join(f"((i * 8) + offset)+(1*{lane})" for lane in range(4))
    elements = ",".join(f"x[v.s{lane}]" for lane in range(4))
    far = places.replace("(1*", "(6*")
    source = (
        "__kernel void k(__global float* restrict x, int offset) {\n"
        f"  int4 v = (int4)({places});\n"
        f"  a[0] = ((float4)({elements}));\n"
        f"  int4 w = (int4)({far});\n"
        f"  a[1] = ((float4)({elements.replace('v.', 'w.')}));\n"
    )
    found = aligned(source)
    assert "a[0] = (*(__global float4*)(x + v.s0));" in found
    assert "a[1] = ((float4)(x[w.s0],x[w.s1],x[w.s2],x[w.s3]));" in found


def test_vectors_are_made_as_opencl_makes_them() -> None:
    """TVM writes the constructor of C++; a conversion and a cast stay."""
    source = "x = float4(a, b, c, d) + convert_float4(e) + (float4)(f);\n"
    assert aligned(source) == "x = (float4)(a, b, c, d) + convert_float4(e) + (float4)(f);\n"


def test_vectors_of_two_are_as_those_of_four() -> None:
    source = (
        "__kernel void k(__global float* restrict x, int offset) {\n"
        "  int2 v = (int2)((i + offset)+(1*0), (i + offset)+(1*1));\n"
        "  a[0] = ((float2)(x[v.s0],x[v.s1]));\n"
        "  vstore2(a[0], 0, x + ((i * 2) + offset));\n"
    )
    found = aligned(source)
    assert "a[0] = (*(__global float2*)(x + v.s0));" in found
    assert "*(__global float2*)(x + ((i * 2) + offset)) = a[0];" in found


def test_a_product_reads_no_vector_of_a_tensor_by_elements(library: bytes) -> None:
    source = library[library.index(b"// Function: ") :].decode(errors="replace")
    assert "(*(__global float4*)(arg" in source
    assert not re.search(r"\[\w+\.s3\]", source)


READS = "  float4 v = *(__global float4*)(x + ((i * 4) + x_at));\n"


def opencl(*body: str) -> str:
    given = "__global float* restrict y, __global float* restrict x, __global float* restrict x_1"
    return "".join([f"__kernel void k({given}, int x_at) {{\n", *body, "}\n"])


def test_source_that_offers_an_image() -> None:
    """Each operand by its number among the arguments; what reads it is a choice of the driver's."""
    found = with_images(opencl(READS, "  x_1[0] = y[0];\n"))
    assert "#ifdef ODTC_IMAGE_1\n" in found
    assert found.count("#ifdef") == 1
    assert "(__global float* restrict y, OPERAND_1 x, __global float* restrict x_1, int" in found
    assert "  float4 v = READ_1(((i * 4) + x_at));\n" in found
    assert "#define READ_1(at) read_imagef(x, (at) >> 2)\n" in found
    assert "#define READ_1(at) (*(__global float4*)(x + (at)))\n" in found


@pytest.mark.parametrize(
    "body",
    [
        "",
        "  *(__global float4*)(x + (i * 4)) = v;\n",
        READS + "  *(__global float4*)(x + (i * 4)) = v;\n",
        READS + "  v.x = x[0];\n",
        READS + "  v.xy = *(__global float2*)(x + 2);\n",
        READS + "  v.x = vload_half(0, x);\n",
        READS + "  __global float* p = x;\n",
    ],
)
def test_source_that_offers_none(body: str) -> None:
    assert with_images(opencl(body)) == opencl(body)


def test_source_that_offers_images_of_float16() -> None:
    """Where a kernel computes with none, TVM's call loads and converts four of them."""
    of_halves = opencl(READS).replace("float* restrict x,", "half* restrict x,")
    memory = of_halves.replace(
        "*(__global float4*)(x + ((i * 4) + x_at))",
        "vloada_half4(0, ((__global half *)x + ((i * 4) + x_at)))",
    )
    computed = of_halves.replace("float4", "half4")
    for source, read in ((memory, ""), (computed, "convert_half4")):
        found = with_images(source)
        assert found.count("#ifdef ODTC_IMAGE_HALVES_1\n") == 1
        assert "OPERAND_1 x, " in found
        assert "4 v = READ_1(((i * 4) + x_at));\n" in found
        reads = re.findall(r"#define READ_1\(at\) (.*)", found)
        assert reads[0].replace("(read_imagef(x, (at) >> 2))", "") in (
            read,
            "read_imagef(x, (at) >> 2)",
        )
    rounded = opencl(READS).replace("= *", "= convert_half4(*").replace("));", ")));")
    assert with_images(rounded) == rounded

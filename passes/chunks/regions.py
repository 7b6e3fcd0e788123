"""Finds the calls between a wide product and the sums that its results end in.

The region of a product is all that reads or makes tensors as wide as its result, and what lies
between these. It is closed if each of its calls can be cut by rows, and no wide tensor leaves it.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tvm import relax

from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.passes.chunks.forms import Kind, Region, kind_of
from odtc.passes.chunks.rows import row_size, shape_of
from odtc.passes.ir.bindings import bindings_of, reached_from
from odtc.passes.ir.tensor_bytes import variable_bytes

_PRODUCT = "relax.matmul"
# Of these, the result is as wide as the operand is, though it may have fewer elements.
_PASS_ON = frozenset(("relax.strided_slice", "relax.permute_dims"))


@dataclass(frozen=True)
class Closed:
    """A region that can be cut by rows.

    Attributes:
        region: it.
        bindings: its calls, in order.
        kinds: of what they bind.
        results: what others read of it.
        reached: the results, and all that is computed from them.
        product: the result of the product that it is the region of.
    """

    region: Region
    bindings: list[relax.Binding]
    kinds: dict[relax.Var, Kind]
    results: list[relax.Var]
    reached: set[relax.Var]
    product: relax.Var

    @property
    def wide(self) -> int:
        """Bytes of the product's result."""
        return variable_bytes(self.product)

    @property
    def sums(self) -> list[int]:
        """Bytes of each sum over rows."""
        return [variable_bytes(each) for each, kind in self.kinds.items() if kind is Kind.SUM]


class Regions:
    """The regions of a function of one dataflow block."""

    def __init__(self, function: relax.Function) -> None:
        self._bindings = bindings_of(function)
        self._values = {binding.var: binding.value for binding in self._bindings}
        self._returned = set(relax.analysis.free_vars(function.body.body))
        self._readers: dict[relax.Var, list[relax.Var]] = defaultdict(list)
        for binding in self._bindings:
            for each in set(relax.analysis.free_vars(binding.value)):
                self._readers[each].append(binding.var)

    def closed(self, words: int, among: Collection[relax.Var]) -> Iterator[Closed]:
        """The closed regions of products, of these, with so many columns at least."""
        for binding in self._bindings:
            shape = shape_of(binding.var)
            is_one = is_call(binding.value, _PRODUCT) and binding.var in among
            if is_one and shape and shape[-1] >= words:
                found = self._region(binding.var, math.prod(shape[:-1]), shape[-1])
                if found is not None:
                    yield found

    def _region(self, product: relax.Var, rows: int, width: int) -> Closed | None:
        inside = self._between(self._wide(product, rows, width))
        bindings = [binding for binding in self._bindings if binding.var in inside]
        region = Region(rows, self._values, frozenset(inside))
        found = {each.var: kind_of(region, each.value) for each in bindings}
        kinds = {each: kind for each, kind in found.items() if kind is not None}
        if rows == 1 or len(kinds) < len(found) or not self._may_be_read(region, kinds):
            return None
        results = [each for each in kinds if self._is_result(each, inside)]
        if any(row_size(each, rows) >= width or kinds[each] is Kind.TURNED for each in results):
            return None
        reached = reached_from(self._bindings, results) - (inside - set(results))
        return Closed(region, bindings, kinds, results, reached, product)

    def _wide(self, product: relax.Var, rows: int, width: int) -> set[relax.Var]:
        """The variables that calls bind which read, or make, tensors as wide as a product's.

        Where these are tuples, their fields are among them.
        """
        wide, inside, pending = {product}, {product}, [product]
        while pending:
            each = pending.pop()
            value = self._values[each]
            for reader in self._readers[each]:
                inside.add(reader)
                if isinstance(reader.ty, relax.TupleType):
                    inside.update(self._readers[reader])
                passed = operator_of(self._values[reader]) in _PASS_ON
                if reader not in wide and (passed or row_size(reader, rows) >= width):
                    wide.add(reader)
                    pending.append(reader)
            for read in relax.analysis.free_vars(value):
                if read in self._values and read not in wide and row_size(read, rows) >= width:
                    wide.add(read)
                    inside.add(read)
                    pending.append(read)
        return inside

    def _between(self, inside: set[relax.Var]) -> set[relax.Var]:
        """These variables, and those that are computed from some and that others are made of."""
        after = reached_from(self._bindings, inside)
        before = set(inside)
        for binding in reversed(self._bindings):
            if binding.var in before:
                before.update(relax.analysis.free_vars(binding.value))
        return after & before

    def _may_be_read(self, region: Region, kinds: dict[relax.Var, Kind]) -> bool:
        """Whether no call reads what is complete only after the last chunk, or is turned."""
        for variable, kind in kinds.items():
            readers = [each for each in self._readers[variable] if each in region.inside]
            if kind is Kind.SUM and readers:
                return False
            if kind is Kind.TURNED and not all(
                kinds[each] is Kind.SUM
                and region.untwisted(self._values[each].args[0]) is not None
                and self._values[each].args[0].same_as(variable)
                and not self._values[each].args[1].same_as(variable)
                for each in readers
            ):
                return False
        return True

    def _is_result(self, variable: relax.Var, inside: set[relax.Var]) -> bool:
        return variable in self._returned or not inside.issuperset(self._readers[variable])

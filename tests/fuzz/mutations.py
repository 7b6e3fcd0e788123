"""All mutations, by name. Each changes a mutant in place, by a random generator only."""

from collections.abc import Callable
from random import Random

from tests.fuzz import damage, external, structure, values
from tests.fuzz.mutant import Mutant

Mutation = Callable[[Random, Mutant], None]
MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for family in (damage, values, structure, external)
    for mutation in family.MUTATIONS
}

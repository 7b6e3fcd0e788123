"""From a model to an artifact: the stages of a compile and of a plan, in their order.

    options/         what a user may choose of a step: one table
    entry_points     `odtc.compile`, `odtc.plan`: text becomes what all below takes
    compilation      the step is kept already, or it is built
    building         the stages below, one after the other
    drafts/          a model as read (`source`), its graph with losses (`drafting`)
    training         its gradients; `preparation` is the way up to here
    parts            the numbers of micro-batches that are possible
    splitting        a step of each, lowered, its calls in order
    fitting          the way to run it that is the fastest within a budget
    sealed/          what is said of it (`notes`), and the members of an artifact (`sealing`)

`planning` takes the way up to `splitting`, and returns a `frontier`; `examination` takes that up to
the gradients, and says what stands in the way. `layouts` reads one option.
"""

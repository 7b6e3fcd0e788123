"""Which parameters are trained: all, some layers, or adapters beside them; and which outputs."""

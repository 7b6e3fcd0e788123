"""Steps that are compiled for several lengths: rows of any length, filled up or cut to one."""

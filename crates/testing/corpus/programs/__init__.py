"""The programs: launches, inputs by seed, and references in NumPy."""

"""holdfast in other people's frameworks: one module for each. None is imported unless you do."""

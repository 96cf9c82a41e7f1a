"""`holdfast watch`: a live view of the locks, in the terminal."""

"""What is compiled where it pays: loops that are slow in Python and in many small operations of a tensor library.

All of it is optional. A wheel that was built where a C++ compiler is holds one library with a plain C interface; where
there is none, or ``ENSUE_KERNELS`` is ``off``, the code in torch and NumPy does the same, and tests compare the two.
Neither this room nor the library knows torch or Python: addresses and numbers go in.
"""

from ensue.kernels.loading import LEVELS, VARIABLE, level, library, load

__all__ = ["LEVELS", "VARIABLE", "level", "library", "load"]

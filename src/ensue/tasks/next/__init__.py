"""Task ``next``: which id comes next in a timed sequence."""

"""Task ``suggest``: which query will be typed next."""

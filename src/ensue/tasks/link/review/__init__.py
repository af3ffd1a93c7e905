"""Reading posts by hand: what comes next, and when enough is found."""

"""The networks of task ``classify``: one paper, one file."""

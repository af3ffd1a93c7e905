"""The networks of task ``next``: one paper, one file."""

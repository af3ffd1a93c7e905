"""The networks of task ``suggest``, one paper, one file, and the layers that they share."""

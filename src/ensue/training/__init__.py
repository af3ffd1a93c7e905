"""How models are trained: the loop, its checkpoints, the optimiser, and the processes of one training."""

"""Training of models: the loop, its checkpoints, the optimiser, and the processes of one training."""

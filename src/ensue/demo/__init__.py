"""The demonstration: a made-up town with known ground truth, and one small model per question about it."""

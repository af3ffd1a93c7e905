"""The four tasks, a package each; none knows another."""

"""What people and CI run; a package, so that tests can look at parts of it."""

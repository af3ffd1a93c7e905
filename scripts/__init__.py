"""Commands of people and CI; a package, so that tests can import parts of it."""

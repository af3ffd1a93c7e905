"""How the site is made: generated pages, and the runner of what hand-written pages show."""

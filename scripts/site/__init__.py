"""Generated pages of the site, and the runner of commands and code that hand-written pages show."""

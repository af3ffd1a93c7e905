"""What ``best`` is made of: several scores in one."""

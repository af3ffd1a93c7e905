"""What orders suggestions that several sources bring."""

"""Model folders: replaced as a whole, locked while somebody learns, checked when read, with what they replaced."""

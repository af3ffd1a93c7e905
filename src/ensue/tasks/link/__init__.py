"""Task ``link``: which posts discuss this article, and which articles a post is about."""

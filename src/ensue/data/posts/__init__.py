"""Posts and articles in, columns out."""

from ensue.data.posts.corpus import Corpus, is_corpus, read_corpus
from ensue.data.posts.dataset import Articles, Pairs, Posts, PostsReport, read_articles, read_posts

__all__ = [
    "Articles",
    "Corpus",
    "Pairs",
    "Posts",
    "PostsReport",
    "is_corpus",
    "read_articles",
    "read_corpus",
    "read_posts",
]

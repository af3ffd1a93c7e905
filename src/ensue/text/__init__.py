"""Text processing shared by the tasks: tokens, terms, TF-IDF, BM25, linear models, word vectors, encoders."""

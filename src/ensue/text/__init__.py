"""What several tasks know about words: tokens, terms, TF-IDF, BM25, linear models, word vectors, sentence encoders."""

"""Scripts that put no space between words: each of their characters is a word, in every task."""

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Members of a character class for them, in the syntax of polars."""
CHARACTER = rf"[{UNSPACED}]\p{{M}}*"
"""One character of them with the marks upon it."""

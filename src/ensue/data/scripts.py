"""Classes of characters: scripts that put no space between words, where each character is a word, and common ones."""

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Members of a character class for them, in the syntax of polars."""
CHARACTER = rf"[{UNSPACED}]\p{{M}}*"
"""One character of them with the marks upon it."""
COMMON = (
    r"\t-\r -~\u00a1-\u00b1\u00b4-\u00b8\u00ba\u00bb\u00bf-\u012f\u0132-\u024f\u0370-\u03a2\u03a4-\u0482\u048a-\u052f"
    r"\u1e00-\u1eff\u2010-\u2027\u2030-\u203e\u2041-\u2053\u2055-\u205e\u20a0-\u20bf\u2100-\u214f\u2190-\u245f\u249c-\u24b5"
    r"\u2500-\u2775\u2794-\u2bff\U0001f000-\U0001f0ff\U0001f18a-\U0001f1ff\U0001f300-\U0001faff"
)
"""Latin, Greek and Cyrillic letters, marks and symbols: those for which Python and polars agree on letters,
digits, spaces and lower case. A few texts of them are split by Python, where a query would take longer."""

"""One file a paper: its tables and figures, rebuilt by ``ensue reproduce PAPER``; and our own study, ``anywhere``."""

from ensue.studies import anywhere, ast, centrality, hidan, mtn, sansr

PAPERS = {
    "ast": ast.run,
    "centrality": centrality.run,
    "hidan": hidan.run,
    "mtn": mtn.run,
    "sansr": sansr.run,
    "anywhere": anywhere.run,
}

"""One file a paper: its tables and figures, rebuilt by ``ensue reproduce PAPER``."""

from ensue.studies import ast, centrality, hidan, mtn, sansr

PAPERS = {"ast": ast.run, "centrality": centrality.run, "hidan": hidan.run, "mtn": mtn.run, "sansr": sansr.run}

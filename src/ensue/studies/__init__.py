"""One file a paper: its tables and figures, rebuilt by ``ensue reproduce PAPER``."""

from ensue.studies import centrality, hidan, sansr

PAPERS = {"centrality": centrality.run, "hidan": hidan.run, "sansr": sansr.run}

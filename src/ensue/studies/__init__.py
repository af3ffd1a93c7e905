"""One file a paper: its tables and figures, rebuilt by ``ensue reproduce PAPER``."""

from ensue.studies import hidan, sansr

PAPERS = {"hidan": hidan.run, "sansr": sansr.run}

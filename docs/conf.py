"""How Sphinx builds the site; `scripts/docs` makes the generated pages first and then calls it."""

from __future__ import annotations

from typing import Any

from ensue.version import __version__

project = "ensue"
author = "The ensue authors"
copyright = "The ensue authors, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = f"ensue {__version__}"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # a page from the disk may read no other page
pygments_style = "a11y-high-contrast-light"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_toc_level": 2,
    "use_edit_page_button": False,
}
SINGLE = (
    "index",
    "quickstart",
    "first_answers",
    "evaluation",
    "formats",
    "security",
    "extend",
    "architecture",
    "custom_code",
    "compiled_kernels",
    "troubleshooting",
    "faq",
    "citing",
    "glossary",
)
html_sidebars = {page: [] for page in SINGLE}


def setup(app: Any) -> None:
    """Let links to the pages of studies, which are outside this folder, lead to the copies that are built."""

    def relink(_: object, __: str, source: list[str]) -> None:
        source[0] = source[0].replace("../../studies/results/", "../generated/studies/")

    app.connect("source-read", relink)

import os
import re

from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

from fixman import __version__

project = "fixman"
author = "The fixman developers"
copyright = "2026, The fixman developers"
version = release = __version__

os.environ["FIXMAN_QUIET"] = "1"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",  # cards of the first page
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say shapes
napoleon_google_docstring = False


def figures_of(_block, variables, gallery):
    """Save the figure that a block of a tutorial has made; those of `fx.plot` are not pyplot's."""
    figure = variables["example_globals"].pop("fig", None)
    if figure is None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=200)
    return figure_rst([path], gallery["src_dir"])


sphinx_gallery_conf = {
    "image_scrapers": (figures_of,),
    "examples_dirs": "tutorials",
    "gallery_dirs": "learn",  # written when the pages are built
    "filename_pattern": ".py$",  # run them all
    "download_all_examples": False,
    "remove_config_comments": True,
    "capture_repr": (),  # what a block prints is shown, and nothing else
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
}

exclude_patterns = ["_build", "_static", "tutorials"]
suppress_warnings = ["config.cache"]  # a function is among the values
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["cards.css"]
html_title = f"fixman {__version__}"


def escape_bars(_app, _what, _name, _obj, _options, lines: list[str]) -> None:
    """Let docstrings write |x| for a norm, which reStructuredText takes for a substitution."""
    lines[:] = [re.sub(r"(`[^`]*`)|\|", lambda m: m[1] or r"\|", line) for line in lines]


def join_colon(_app, what, _name, _obj, _options, lines: list[str]) -> None:
    """Undo what napoleon makes of "Tensions: positive if …" on a property, a type "Tensions"."""
    types = [line for line in lines if line.startswith(":type:")]
    if what == "property" and types:
        lines.remove(types[0])
        lines[0] = f"{types[0].removeprefix(':type: ')}: {lines[0]}"


def setup(app: Sphinx) -> None:
    """Register the hooks on the two sides of napoleon's."""
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    app.connect("autodoc-process-docstring", join_colon, priority=600)

"""How Sphinx builds the documentation site (`make site`) of the Markdown files of the repository. What differs between
the site and GitHub is done here.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kai_sched import __version__  # noqa: E402
from tests.command_blocks import NOT_RUN  # noqa: E402
from tests.site.contents import HOME, navigation  # noqa: E402
from tests.site.reference import PAGES  # noqa: E402

project = "kai-sched"
version = release = __version__
copyright = "the authors of kai-sched"
language = "en"

root_doc = HOME
include_patterns = ["*.md", "docs/**", "charts/*/README.md", "tests/README.md", "tests/scenarios/README.md"]
exclude_patterns = [".*", "build", "dist", "kai_sched", "manifests", "crds", "node_modules", "requirements"]
extensions = ["myst_nb", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb"}
highlight_language = "text"

myst_heading_anchors = 4
# Text with a colon is text, and links to files of the repository are downloads.
myst_url_schemes = ["http", "https", "mailto"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

html_theme = "furo"
html_title = f"kai-sched {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# A link whose text is the name of a document shows its title.
NAMED_LINK = re.compile(r"\[[\w./-]+\.md\](?=\(([\w./-]+\.md)(?:#[^)]*)?\))")
# Says on GitHub what the site has.
ONLY_ON_GITHUB = re.compile(r"^The site has them here: .*\n", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")


class WrittenAnchors(SphinxTransform):
    """Anchors that are written out (``<a id="4.5"></a>``) can be linked to, as those of headings."""

    default_priority = 800  # before MyST resolves links within the page

    def apply(self, **kwargs: Any) -> None:  # noqa: ARG002
        slugs = self.env.metadata[self.env.current_document.docname].get("myst_slugs", {})
        for node in self.document.findall(nodes.raw):
            for name in re.findall(r'<a id="([^"]+)"', node.astext()):
                slugs[name] = (node.line, name, name)
                self.document.ids.setdefault(name, node)


def adapt(app: Sphinx, name: str, source: list[str]) -> None:
    """The text of a page on the site: with what is made from the code, without links to what is not on the site."""
    folder = (ROOT / name).parent
    text = NAMED_LINK.sub(lambda link: f"[{_title(folder / link[1])}]", ONLY_ON_GITHUB.sub("", source[0]))
    if name in PAGES:
        text += "\n" + PAGES[name]()
    if name == HOME:
        text += "\n" + navigation(app.env.found_docs)
    # Kept as a class, so that the page says it.
    text = re.sub(rf"^( *)```(\w+) {NOT_RUN}$", r"\1```{code-block} \2\n\1:class: not-run\n", text, flags=re.MULTILINE)
    documents = {(ROOT / app.env.doc2path(each)).resolve() for each in app.env.found_docs}
    source[0] = LINK.sub(lambda link: link[0] if _is_here((folder / link[2]).resolve(), documents) else link[1], text)


def _is_here(path: Path, documents: set[Path]) -> bool:
    """Whether the site has what is linked to; folders and some documents are on GitHub alone. Sphinx reports typos."""
    return not path.is_dir() and (path.suffix != ".md" or path in documents or not path.exists())


def _title(document: Path) -> str:
    """The first heading of a document, or its name where that is not there: Sphinx reports the link."""
    found = re.search(r"^# (.+)$", document.read_text(), re.MULTILINE) if document.is_file() else None
    return found[1] if found else document.name


def copy_home(app: Sphinx, failure: Exception | None) -> None:
    """The front page is also the index of the site."""
    if failure is None:
        shutil.copy(app.outdir / f"{HOME}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", adapt)
    app.connect("build-finished", copy_home)
    app.add_transform(WrittenAnchors)

"""Hook of the docs site: replace links to files outside docs/ by their paths in the repository."""

import re

OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+(?:benchmarks|examples|CHANGELOG)[^)]*)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's text with such links as code: the site contains docs/ only."""
    return OUTSIDE.sub(lambda link: f"{link[1]} (`{link[2].replace('../', '')}`)", markdown)

"""A hook of MkDocs that fails the build if a page would load anything from another host.

Links that a reader follows may lead anywhere; scripts, styles, fonts and images may not.
"""

import re
from typing import Any

LOADS = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)\s*=\s*["']?(?:https?:)?//[^"'\s>]+""", re.I
)


def outside(html: str) -> list[str]:
    return LOADS.findall(html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    from mkdocs.exceptions import PluginError

    if found := outside(output):
        raise PluginError(f"{page.file.src_path} loads from another host: {', '.join(found)}")
    return output

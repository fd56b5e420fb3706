"""The gallery: scripts of examples/gallery, each with its picture."""

from __future__ import annotations

import ast
from pathlib import Path


def scripts(root: Path) -> list[Path]:
    return sorted(path for path in (root / "examples" / "gallery").glob("*.py") if not path.name.startswith("_"))


def pages(root: Path) -> dict[str, str]:
    """An overview with small pictures, and a page for each script: its docstring, picture and code."""
    found = {}
    lines = ["# Gallery", "",
             "Whole programs below 80 lines, run by the tests. `python examples/gallery/NAME.py` draws the picture.",
             "", '<div class="gallery" markdown>', ""]  # fmt: skip
    for path in scripts(root):
        text = path.read_text()
        title, _, rest = (ast.get_docstring(ast.parse(text)) or path.stem).partition("\n")
        picture = f"../examples/gallery/pictures/{path.stem}.png"
        code = text.split('"""', 2)[2].lstrip("\n")
        lines += [f"[![{title}]({picture})](gallery/{path.stem}.md)<br>{title}", ""]
        body = f"# {path.stem.replace('_', ' ').capitalize()}\n\n{title}\n{rest}\n\n![{title}](../{picture})\n\n"
        found[f"docs/gallery/{path.stem}.md"] = f"{body}`examples/gallery/{path.name}`:\n\n```python\n{code}```\n"
    return {"docs/gallery.md": "\n".join([*lines, "</div>", ""])} | found if found else {}

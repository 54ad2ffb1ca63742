"""How Sphinx builds these pages into site/, which is read without a network: `make docs`."""

project = "Touchstone"
html_title = "Touchstone"
extensions = ["myst_parser"]
html_theme = "furo"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
# Links such as contracts.md#envjson-where-it-ran, made as GitHub makes them.
myst_heading_anchors = 3
# Blocks that name no language are commands and tables, not Python.
highlight_language = "text"

"""The files that a Markdown page shows, written into a folder: page_files.py PAGE FOLDER."""

import re
import sys
from pathlib import Path

page, folder = map(Path, sys.argv[1:])
folder.mkdir(parents=True, exist_ok=True)
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
for name, text in FILE.findall(page.read_text()):
    (folder / name).write_text(text)

"""The modules of website/ are on the import path of these tests."""

import sys
from pathlib import Path

WEBSITE = Path(__file__).resolve().parents[2] / "website"
for folder in (WEBSITE, WEBSITE / "browser", WEBSITE / "programs"):
    sys.path.append(str(folder))  # last: website/browser has a stand-in for optree

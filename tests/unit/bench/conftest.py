"""Makes the package `bench` importable: it is run from the root of the project and never installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

"""Machine-made input against the engine: fuzz targets, their kept corpus, and runs under the sanitizers.

They stand on the fakes of the engine's unit tests.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "engine"))

"""Where Pulumi starts the pack."""

import sys
from importlib import import_module
from pathlib import Path

here = Path(__file__).resolve().parent
# Pulumi runs this folder, which is a package: its modules are found under the folder's name, whatever that is here.
sys.path.append(str(here.parent))
import_module(f"{here.name}.pack").register()

"""python -m txjax is the txjax command."""

import sys

from txjax.cli import main

sys.exit(main())

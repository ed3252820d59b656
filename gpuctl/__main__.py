"""`python -m gpuctl`: the same as the installed script."""

import sys

from gpuctl.cli.main import main

sys.exit(main())

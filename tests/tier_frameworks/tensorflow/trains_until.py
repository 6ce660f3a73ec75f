"""The example of TensorFlow, whose chief trains on until the file that TRAINS_UNTIL names is there.

A test sees it train, kills somebody and sees it train on, however long a successor takes to start.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.easydl import tf_parameter_server


class Options(argparse.Namespace):
    @property
    def epochs(self) -> int:
        return 0 if Path(os.environ["TRAINS_UNTIL"]).exists() else sys.maxsize


def arguments() -> argparse.Namespace:
    return Options(steps=50, pause=0.1)


if __name__ == "__main__":
    tf_parameter_server.arguments = arguments
    tf_parameter_server.main()

"""Stop the cluster that `edl up` started, with all its processes. Its objects are kept for the next `edl up`."""

import argparse

from edl.cli.connect.cluster import home

SUMMARY = "stop it"
ORDER = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delete", action="store_true", help="also delete everything that the cluster keeps on disk")


def run(options: argparse.Namespace) -> int:
    from edl.cli.errors import CommandError
    from edl.cli.local.down import stop
    from edl.cli.local.up import UpError
    from edl.embedded.home import HomeUnusableError

    path = home()
    try:
        stopped = stop(path)
    except (UpError, HomeUnusableError) as error:
        raise CommandError(str(error)) from None
    if stopped.running is not None:
        print(f"down: the cluster at {stopped.running.url} has stopped")
    elif stopped.left:
        print(f"nothing was up; {stopped.left} processes that a killed cluster left were ended")
    else:
        print("nothing was up")
    if options.delete and path.exists():
        import shutil

        shutil.rmtree(path)
        print(f"deleted {path}")
    return 0

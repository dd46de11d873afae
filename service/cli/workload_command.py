"""`headcount workload`: workloads from what there is of real requests."""

import argparse

from service.cli import workload_from, workload_scrape


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("workload", help="make a workload from real requests")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    workload_from.add_to(actions)
    workload_scrape.add_to(actions)

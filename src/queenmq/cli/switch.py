"""What queen pause and queen resume print."""

from queenmq.cli.printing import print_json, printable


def report(queue: str, group: str | None, *, changed: bool, paused: bool, json: bool) -> None:
    """Say what happened to the deliveries of a queue, or of one group on it."""
    if json:
        print_json({"queue": queue, "group": group, "paused": paused, "changed": changed})
        return
    whose = f"Deliveries of {printable(queue)}" + ("" if group is None else f" to {printable(group)}")
    state = "are paused" if paused else "are resumed"
    before = "were paused already" if paused else "were not paused"
    print(f"{whose} {state if changed else before}.")

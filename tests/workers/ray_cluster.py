"""A Ray cluster of three nodes on this machine: one dies in the middle of the work, the others answer for a run."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def slow_square(number: int, folder: str) -> int:
    """A job that leaves a trace of every time that it began."""
    import ray

    with open(Path(folder) / f"{number}", "a") as file:
        file.write(ray.get_runtime_context().get_node_id() + "\n")
    time.sleep(0.3)
    return number * number


def answer(folder: Path, run: Path) -> None:
    """The commands that answer for many rows, on the cluster."""
    from pintgn.cli.use import embed, predict, recommend

    recommend(run, everyone=True, k=1, output=folder / "pairs.parquet", on="ray")
    recommend(run, everyone=True, k=2, output=folder / "best.parquet", on="ray")
    predict(run, str(folder / "pairs.parquet"), output=folder / "scores.parquet", on="ray")
    embed(run, output=folder / "vectors.parquet", on="ray")


def main(folder: str, run: str) -> None:
    import ray
    from ray.cluster_utils import Cluster

    from pintgn.workers.jobs import open_jobs
    from tests.workers.ray_cluster import slow_square

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    cluster.wait_for_nodes()
    try:
        with open_jobs("ray", 1) as jobs:
            found = []
            for number, value in jobs.run(slow_square, ((k, folder) for k in range(12))):
                found.append((number, value))
                if len(found) == 3:
                    cluster.remove_node(nodes[0], allow_graceful=False)
            print(json.dumps({"found": sorted(found), "workers": jobs.workers}))
        assert ray.is_initialized()  # it was not ours to end
        answer(Path(folder), Path(run))
        assert ray.is_initialized()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    os.environ["RAY_DISABLE_IMPORT_WARNING"] = "1"
    main(*sys.argv[1:])

#!/bin/sh
# Train the run that is served on everything that has happened, and promote it unless it is worse:
#     retrain.sh RUN SERVICE [options of pintgn promote]
set -eu
run=$1 service=$2 new=$1-$(date +%Y%m%d-%H%M%S) copy=$(mktemp -d)
shift 2
trap 'rm -rf "$copy"' EXIT
pintgn backup "$run" -o "$copy/run.tar"
pintgn restore "$copy/run.tar" -o "$copy/run"
pintgn serve "$copy/run" --export "$copy/all.parquet"
pintgn train "$copy/run" --with "$copy/all.parquet" --refit -o "$new"
pintgn promote "$new" --service "$service" "$@"

#!/bin/sh
# Measures every row that docs/performance.md shows, with seven samples and all peers, on this machine's GPU:
#
#   sh results/publish.sh COMMIT [SECONDS]      (from the source tree; default 675 seconds in all)
#
# COMMIT is the one that the tree is a copy of: `mansard report` compares their digests. Rows go to the journals
# results/h200/*/rows.jsonl as they are measured. A command that fails or runs out of time leaves the others alone; given
# again, it continues where it was. Seconds of each are what an H200 with an empty cache of kernels takes, and some more;
# the last one has what is left. Ceilings are measured before a command's seconds begin.
commit=${1:?name the commit that this tree is a copy of}
end=$(($(date +%s) + ${2:-675}))
starting=15  # seconds of a command for imports and ceilings
for job in "gram 80" "matmul 80" "batched 40" "factor 155" "factor 150 two_sided" "powers 600"; do
  set -- $job
  left=$((end - $(date +%s) - starting))
  [ "$left" -lt "$2" ] || left=$2
  name=${3:-$1}
  [ "$left" -gt 10 ] || { echo "no time left for $name"; continue; }
  echo "== $name: at most $left s"
  "${PYTHON:-python3}" -m mansard bench "$1" --set "${3:-readme}" --device cuda --publish --commit "$commit" \
    --seconds "$left" --out "results/h200/$name" --no-report || echo "== $name ended with status $?"
done

#!/bin/sh
# Measures the joules that docs/energy.md speaks of on this machine's GPU, which nobody else may use meanwhile:
#
#   sh results/energy.sh COMMIT [WINDOW] [TRIALS]      (from the source tree; default: 3 windows of 5 s)
#
# Factorizations of n = 16, 32, 64 go to results/h200-energy/factor, ours and the fastest peer's: about 7 minutes, with one
# window of 1 s a minute. A second run with the same arguments shows how well joules reproduce. Then three problems are
# tuned for energy, about 40 s each; their trials go to results/h200-energy/trials.jsonl, which `mansard report` draws.
commit=${1:?name the commit that this tree is a copy of}
out=results/h200-energy
python=${PYTHON:-python3}
mkdir -p "$out"
"$python" -m mansard bench factor --set greenup --device cuda --energy --energy-best --energy-window "${2:-5}" \
  --energy-trials "${3:-3}" --commit "$commit" --out "$out/factor" --no-report
for problem in "gram --m 32" "lu_factor --m 32 --elements 2^27" "gemm --m 16"; do
  "$python" -m mansard tune $problem --device cuda --goal energy --limit 12 || echo "== $problem ended with status $?"
done
cat "${MANSARD_CACHE_DIR:-$HOME/.cache/mansard}"/tuning/cuda-*/*.energy.jsonl > "$out/trials.jsonl"

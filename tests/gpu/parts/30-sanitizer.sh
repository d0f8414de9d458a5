# compute-sanitizer of the CUDA toolkit on small runs.
tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[ -n "$tool" ] || { echo "no compute-sanitizer: it is part of the CUDA toolkit"; exit 77; }
set -e
for kind in memcheck initcheck racecheck synccheck; do
  echo "$kind"
  "$tool" --tool $kind --error-exitcode 9 "$HERE/cuda_test" --gtest_brief=1 --gtest_filter='Gpu*-*Epochs*' |
    grep -vE '^$|^Running main'
  [ "${PIPESTATUS[0]}" -eq 0 ]
done
truemax generate train.txt --rows 500 --features 200 --classes 100 --nonzeros 8 --seed 1 >/dev/null
"$tool" --tool memcheck --error-exitcode 9 "$HERE/truemax" train train.txt --method prox --draw blocks \
  --classes-per-step 16 --epochs 1 --device cuda --model none --log none --quiet

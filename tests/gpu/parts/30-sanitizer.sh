# compute-sanitizer of the CUDA toolkit on small runs.
tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[ -n "$tool" ] || { echo "no compute-sanitizer: it is part of the CUDA toolkit"; exit 77; }
set -e -o pipefail
check() {  # check TOOL PROGRAM [ARGUMENT...]
  echo "$1: $(basename "$2") ${*:3}"
  "$tool" --tool "$1" --error-exitcode 9 "${@:2}" | { grep -E '^=========' || true; } | tail -15
}
for kind in memcheck initcheck racecheck synccheck; do
  check $kind "$HERE/cuda_test" --gtest_brief=1 --gtest_filter='Gpu*-*Epochs*:*Refuses*'
done
# Without the variable it would test the library that runs kernels on the CPU.
TRUEMAX_CUDA_LIBRARY=$HERE/libtruemax_cuda.so \
  check memcheck "$HERE/train_test" --gtest_brief=1 --gtest_filter='Device*Steps*:Device*Evaluates*'
truemax generate train.txt --rows 500 --features 200 --classes 100 --nonzeros 8 --seed 1 >/dev/null
check memcheck "$HERE/truemax" train train.txt --method prox --draw blocks --classes-per-step 16 --epochs 1 \
  --device cuda --model none --log none --quiet
for kind in memcheck racecheck; do  # rows that learn their rivals
  check $kind "$HERE/truemax" train train.txt --method prox --draw blocks --classes-per-step 16 --rivals 2 --epochs 3 \
    --device cuda --model none --log none --quiet
done
# Kernels of the PyTorch layer that multiply; each tensor in memory of its own, so that nothing beside it is.
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1 TRUEMAX_PACKAGE=$HERE/python TRUEMAX_EMULATED=$HERE/libtruemax_emulated.so
  for test in test_every_reduction_and_no_bias test_gradients_are_the_products; do
    for kind in memcheck synccheck; do
      check $kind "$(command -v python3)" "$HERE/tests/test_torch_cuda.py" -k $test
    done
  done
fi

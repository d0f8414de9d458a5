# Kernels and engines: on the CPU, and on the card beside the CPU.
set -e -o pipefail
"$HERE/device_test" --gtest_brief=1
"$HERE/cuda_test" --gtest_brief=1 | tee tests.txt
TRUEMAX_CUDA_LIBRARY=$HERE/libtruemax_cuda.so "$HERE/train_test" --gtest_brief=1 --gtest_filter='Device*' | tee -a tests.txt
if grep -E 'SKIPPED|FAILED' tests.txt; then
  echo "tests of the card failed, or were skipped on a machine that has one"
  exit 1
fi

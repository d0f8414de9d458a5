# Kernels and engines: on the CPU, and on the card beside the CPU.
set -e
"$HERE/device_test" --gtest_brief=1
"$HERE/cuda_test" --gtest_brief=1
if "$HERE/cuda_test" --gtest_filter='Gpu*' | grep -E 'SKIPPED' ; then
  echo "tests of the card were skipped on a machine that has one"
  exit 1
fi

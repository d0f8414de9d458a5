# Steps per second beside a kernel that only touches the same memory.
"$HERE/truemax_bench" --help 2>&1 | grep -qw gpu || { echo "truemax_bench has no 'gpu'"; exit 77; }
"$HERE/truemax_bench" gpu

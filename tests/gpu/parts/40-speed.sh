# Steps per second beside a kernel that only touches the same memory, on generated rows.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$HERE/truemax" generate "$folder/rows.txt" --rows 100000 --features 10000 --classes 15000 --nonzeros 10 --skew 1 --seed 1 >/dev/null
"$HERE/truemax_bench" gpu "$folder/rows.txt"

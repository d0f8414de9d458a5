# The PyTorch layer on tensors of the card.
[ -e "$HERE/tests/test_torch_cuda.py" ] || { echo "no test_torch_cuda.py"; exit 77; }
python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
  { echo "no PyTorch with CUDA for this machine's python3"; exit 77; }
TRUEMAX_PACKAGE=$HERE/python TRUEMAX_EMULATED=$HERE/libtruemax_emulated.so python3 "$HERE/tests/test_torch_cuda.py"

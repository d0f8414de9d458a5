"""The paper's experiments with truemax: `./dev paper`. docs/paper.md tells what came out."""

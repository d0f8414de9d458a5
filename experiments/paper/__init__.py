"""The paper's experiments with truemax: `./dev paper`. docs/paper.md has the results."""

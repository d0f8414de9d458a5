// What a run takes on a GPU: memory, and when it is worth the start.
#pragma once

#include "train/facts.hpp"

namespace truemax {

// Bytes of learnt features on a card.
std::uint64_t learnt_card_bytes(const Facts& facts);

// About how long a plain run takes on the CPU, and how long a GPU needs before its first step: starting it,
// and sending W and the rows there. By counted work, so that the same data and options give the same choice
// on machines with the same card.
struct CardCost {
  double cpu = 0, start = 0;  // seconds
  bool is_faster() const { return cpu > 2 * start; }
};
// What is still open: `may_learn`: linear or learnt features; `shape`: draw and classes of a step.
CardCost card_cost(const Facts& facts, bool may_learn, bool shape_is_open);

}  // namespace truemax

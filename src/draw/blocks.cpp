#include "draw/blocks.hpp"

#include <algorithm>

#include "draw/rivals.hpp"

namespace truemax {
namespace {

std::size_t blocks_for(std::size_t classes) {
  return classes / kBlockClasses + (classes % kBlockClasses == 0 ? 0 : 1);
}

}  // namespace

BlockDraw::BlockDraw(const DrawRequest& request, std::uint64_t head_classes)
    : Draw(request.shared),
      classes_(request.classes),
      blocks_(blocks_for(classes_)),
      head_(std::min(blocks_for(head_classes), blocks_)),
      examples_(request.examples),
      rivals_(std::min<std::size_t>(request.options.rivals, blocks_ - head_)) {
  std::vector<double> mass(blocks_ - head_, 0.0);
  double total = 0;
  for (std::size_t k = 0; k < classes_; ++k) {
    total += request.label_mass[k];
    if (k / kBlockClasses >= head_) mass[k / kBlockClasses - head_] += request.label_mass[k];
  }
  tail_ = WeightedDraws(mixed_probabilities(mass, request.options.power, request.options.uniform_share),
                        blocks_for(request.classes_per_step));
  label_share_ = std::move(mass);
  for (double& share : label_share_) share = total > 0 ? share / total : 0;
}

std::size_t BlockDraw::most_blocks() const {
  const std::size_t own = shared() ? 0 : 1;
  return std::min(head_ + own + rivals_ + tail_.draws(), blocks_);
}

template <class Take>
void BlockDraw::visit(std::span<std::uint64_t> words, ClassId label, std::span<const ClassId> rivals,
                      Take&& take) const {
  const std::size_t own = label == kUnseenClass ? blocks_ : label / kBlockClasses;
  for (std::size_t b = 0; b < head_; ++b) take(b, 1.0);
  if (own >= head_ && own < blocks_) take(own, 1.0);
  for (const ClassId b : rivals) take(b, 1.0);
  tail_.each(words, [&](std::uint32_t outcome, double weight) {
    const std::size_t b = head_ + outcome;
    if (b != own && std::find(rivals.begin(), rivals.end(), b) == rivals.end()) take(b, weight);
  });
}

void BlockDraw::attach(std::vector<ClassId>& memory) {
  if (memory.size() != examples_ * rivals_) memory.assign(examples_ * rivals_, kUnseenClass);
  memory_ = &memory;
}

void BlockDraw::remember(ExampleId example, ClassId label, std::span<const ClassId> best) {
  ClassId* const of_row = memory_->data() + number_of(example) * rivals_;
  const auto head = static_cast<std::uint32_t>(head_);
  const auto block_of = [](ClassId k) { return static_cast<std::uint32_t>(k / kBlockClasses); };
  std::uint32_t count = 0;
  for (const ClassId k : best) {
    if (count == rivals_) break;
    count = add_rival(of_row, count, head, block_of(label), block_of(k));
  }
  std::fill(of_row + count, of_row + rivals_, kUnseenClass);
}

std::span<const ClassId> BlockDraw::rivals_of(ExampleId example) const {
  if (rivals_ == 0 || memory_ == nullptr) return {};
  const ClassId* const of_row = memory_->data() + number_of(example) * rivals_;
  std::size_t count = 0;
  while (count < rivals_ && of_row[count] != kUnseenClass) ++count;
  return {of_row, count};
}

std::size_t BlockDraw::step(std::span<std::uint64_t> words, ClassId label, ExampleId example,
                            ClassId* classes, double* weights) const {
  std::size_t count = 0;
  visit(words, label, shared() ? std::span<const ClassId>{} : rivals_of(example),
        [&](std::size_t b, double weight) {
          for (std::size_t k = b * kBlockClasses; k < std::min((b + 1) * kBlockClasses, classes_); ++k) {
            if (k == label) continue;
            classes[count] = static_cast<ClassId>(k);
            weights[count++] = weight;
          }
        });
  return count;
}

void BlockDraw::fill_blocks(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                            std::span<const ClassId> labels, std::span<const ExampleId> examples,
                            BlockBuffer& out) const {
  const std::size_t most = most_blocks();
  out.shape(steps, most);
  // All words first, so that their table entries are prefetched before they are needed.
  const std::size_t each = words();
  out.words.resize(steps * each);
  const bool remembers = rivals_ > 0 && memory_ != nullptr;
  for (std::size_t t = 0; remembers && t < steps; ++t)
    __builtin_prefetch(memory_->data() + number_of(examples[t]) * rivals_);
  RandomWords source(random, first_step * each);
  for (std::uint64_t& word : out.words) {
    word = source.next();
    tail_.ask_for(word);
  }
  for (std::size_t t = 0; t < steps; ++t) {
    std::size_t at = t * most;
    visit(std::span(out.words).subspan(t * each, each), shared() ? kUnseenClass : labels[t],
          remembers ? rivals_of(examples[t]) : std::span<const ClassId>{}, [&](std::size_t b, double weight) {
            out.blocks[at] = static_cast<std::uint32_t>(b);
            out.weights[at++] = weight;
          });
    out.count[t] = static_cast<std::uint32_t>(at - t * most);
  }
}

double BlockDraw::inclusion(ClassId k) const {
  const std::size_t b = k / kBlockClasses;
  return b < head_ ? 1 : tail_.inclusion(b - head_);
}

double BlockDraw::mean_count(ClassId k) const {
  const std::size_t b = k / kBlockClasses;
  if (b < head_) return 1;
  const double own = shared() ? 0 : label_share_[b - head_];
  return own + (1 - own) * tail_.mean_count(b - head_);
}

}  // namespace truemax

#include "draw/active.hpp"

#include <algorithm>
#include <numeric>

#include "core/distinct.hpp"

namespace truemax {

ActiveDraw::ActiveDraw(const DrawRequest& request)
    : Draw(false),
      others_(request.classes - 1),
      examples_(request.examples),
      active_(std::min<std::size_t>(request.options.active, others_)),
      per_step_(std::min(request.classes_per_step, others_)) {
  order_.reserve(active_ + per_step_);
}

void ActiveDraw::attach(std::vector<ClassId>& memory) {
  if (memory.size() != examples_ * active_) memory.assign(examples_ * active_, kUnseenClass);
  memory_ = &memory;
}

std::size_t ActiveDraw::step(std::span<std::uint64_t> words, ClassId label, ExampleId example,
                             ClassId* classes, double* weights) const {
  std::size_t kept = 0;
  if (memory_ != nullptr)
    for (const ClassId* of_row = memory_->data() + number_of(example) * active_;
         kept < active_ && of_row[kept] != kUnseenClass; ++kept) {
      classes[kept] = of_row[kept];
      weights[kept] = 1;
    }
  const std::size_t rest = others_ - kept, count = std::min(per_step_, rest);
  WordList list{words.data()};
  draw_distinct_again(list, rest, {classes + kept, count});
  for (std::size_t j = kept; j < kept + count; ++j) {
    // Maps numbers of the rest to classes: skips the label and the remembered classes, in rising order.
    ClassId k = classes[j];
    bool passed = false;
    for (std::size_t i = 0; i < kept; ++i) {
      if (!passed && label < classes[i]) {
        k += k >= label ? 1U : 0U;
        passed = true;
      }
      k += k >= classes[i] ? 1U : 0U;
    }
    if (!passed) k += k >= label ? 1U : 0U;
    classes[j] = k;
    weights[j] = static_cast<double>(rest) / static_cast<double>(count);
  }
  return kept + count;
}

double ActiveDraw::inclusion(ClassId /*k*/) const {
  return static_cast<double>(most_classes()) / static_cast<double>(others_);
}

void ActiveDraw::learn(ExampleId example, std::span<const ClassId> classes, const double* score) {
  if (memory_ == nullptr) attach(own_);
  const std::size_t kept = std::min(active_, classes.size());
  order_.resize(classes.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return score[a] != score[b] ? score[a] > score[b] : classes[a] < classes[b];
                    });
  ClassId* of_row = memory_->data() + number_of(example) * active_;
  for (std::size_t i = 0; i < kept; ++i) of_row[i] = classes[order_[i]];
  std::fill(of_row + kept, of_row + active_, kUnseenClass);
  std::sort(of_row, of_row + kept);
}

}  // namespace truemax

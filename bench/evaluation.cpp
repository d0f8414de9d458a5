// How close is exact evaluation to what the machine can do? It is compared with a kernel that only loads the
// same lines in the same order (with or without prefetch, whichever is faster) and computes one float32 `exp`
// per class: no products, no highest score, no best classes, no metrics. The peak of float32 fused
// multiply-adds is measured in the same run. Interleaved, best of several. One thread is timed by its CPU
// time, one thread against several by the wall clock. The float32 pass is first compared with the double
// pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "evaluation.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "weights/exp_vector.hpp"

#include <algorithm>
#include <cstddef>

#include "timing.hpp"
#include "weights/fast_tile.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using LineTag = hn::CappedTag<float, kLanes>;
using LineV = hn::Vec<LineTag>;
constexpr std::size_t kLineWidth = hn::MaxLanes(LineTag());
constexpr std::size_t kLineVectors = kLanes / kLineWidth;

// Keeps a vector in a register as if it were used and changed, without an instruction.
HWY_INLINE void launder_vector(LineV& v) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  asm volatile("" : "+x"(v.raw));
#else
  asm volatile("" : : "g"(&v) : "memory");
#endif
}

// Prefetch distance, in non-zeros.
constexpr std::size_t kSoonNumbers = 16;

template <std::size_t kBlocks, bool kSoon>
void touch_rows(CsrView rows, std::size_t first, std::size_t count, const float* HWY_RESTRICT block,
                std::size_t features) {
  const LineTag d;
  const std::size_t stride = features * kLanes, last = rows.begin[first + count];
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t begin = rows.begin[first + r], end = rows.begin[first + r + 1];
    if (kBlocks == 1)
      for (std::size_t j = begin; j < end; j += kLanes) {
        __builtin_prefetch(rows.index + j + 1024, 0, 3);
        __builtin_prefetch(rows.value + j + 1024, 0, 3);
      }
    for (std::size_t j = begin; j < end; ++j) {
      const float* line = block + std::size_t{rows.index[j]} * kLanes;
      use(rows.value[j]);
      if (kSoon && j + kSoonNumbers < last)
        for (std::size_t b = 0; b < kBlocks; ++b)
          __builtin_prefetch(block + b * stride + std::size_t{rows.index[j + kSoonNumbers]} * kLanes, 0, 2);
      for (std::size_t b = 0; b < kBlocks; ++b)
        for (std::size_t v = 0; v < kLineVectors; ++v) {
          LineV w = hn::Load(d, line + b * stride + v * kLineWidth);
          launder_vector(w);
        }
    }
    for (std::size_t v = 0; v < kBlocks * kLineVectors; ++v) {
      LineV z = hn::Zero(d);
      launder_vector(z);
      LineV e = exp_of_falling(d, z);
      launder_vector(e);
    }
  }
}

void touch_rows_here(CsrView rows, std::size_t first, std::size_t count, const float* block,
                     std::size_t blocks, std::size_t features, bool soon) {
  if (blocks == kFastBlocks && soon)
    touch_rows<kFastBlocks, true>(rows, first, count, block, features);
  else if (blocks == kFastBlocks)
    touch_rows<kFastBlocks, false>(rows, first, count, block, features);
  else if (blocks == 2)
    touch_rows<2, false>(rows, first, count, block, features);
  else
    touch_rows<1, false>(rows, first, count, block, features);
}

// Multiply-adds of whole vectors: twelve independent sums. Returns the operations done.
double multiply_add_here(std::size_t times) {
  const LineTag d;
  constexpr std::size_t kSums = 12;
  LineV sum[kSums], factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  for (std::size_t i = 0; i < kSums; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  for (std::size_t t = 0; t < times; ++t)
    for (std::size_t i = 0; i < kSums; ++i) {
      sum[i] = hn::MulAdd(sum[i], factor, term);
    }
  for (std::size_t i = 0; i < kSums; ++i) launder_vector(sum[i]);
  return 2.0 * static_cast<double>(times * kSums * kLineWidth);
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/load.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluation.hpp"
#include "plan_of.hpp"
#include "train/fit.hpp"
#include "train/start.hpp"
#include "weights/fast_pass.hpp"
#include "weights/kernels.hpp"
#include "weights/pass.hpp"

namespace truemax {
namespace {

HWY_EXPORT(touch_rows_here);
HWY_EXPORT(multiply_add_here);

// The first rows of a data set with one example each, as evaluation takes them.
Dataset first_rows(const Dataset& data, std::size_t count) {
  Dataset out;
  out.classes = data.classes;
  out.space = data.space;
  const std::size_t nonzeros = data.rows.begin[count];
  out.rows.index.assign(data.rows.index.begin(),
                        data.rows.index.begin() + static_cast<std::ptrdiff_t>(nonzeros));
  out.rows.value.assign(data.rows.value.begin(),
                        data.rows.value.begin() + static_cast<std::ptrdiff_t>(nonzeros));
  out.rows.begin.assign(data.rows.begin.begin(),
                        data.rows.begin.begin() + static_cast<std::ptrdiff_t>(count + 1));
  for (std::size_t i = 0; i < count; ++i) {
    out.label.push_back(data.label[i]);
    out.label_set.push_back(data.label[i]);
    out.label_begin.push_back(out.label_set.size());
  }
  return out;
}

// All loads and exps of an evaluation, in the order of the float32 pass; `soon`: with prefetch.
void touch(const Weights& weights, CsrView rows, bool soon) {
  const std::size_t blocks = weights.blocks(), count = rows.rows();
  const std::size_t group = fast_group_rows(weights, count, 1);
  for (std::size_t first = 0; first < count; first += group) {
    const std::size_t size = std::min(group, count - first);
    const FastRows arranged(weights, rows, first, size);
    for (std::size_t b = 0, next = 0; b < blocks; b = next) {
      next = b + fast_together(blocks - b);
      HWY_DYNAMIC_DISPATCH(touch_rows_here)
      (arranged.view(), 0, size, weights.block(b), next - b, weights.features(), soon);
    }
  }
}

double of(const std::map<std::string, std::string>& settings, const char* key, double missing) {
  const auto found = settings.find(key);
  return found == settings.end() ? missing : std::stod(found->second);
}

}  // namespace

int bench_evaluate(const std::string& path, const std::map<std::string, std::string>& settings) {
  std::vector<std::string> notes;
  PreprocessOptions preprocess;
  preprocess.normalize = Normalize::l2;
  preprocess.max_features = 10000;
  const auto max_rows = static_cast<std::uint64_t>(of(settings, "rows", 100000));
  const Dataset data = make_training_set(read_rows(path, {}, max_rows, 1, notes), preprocess);
  Recipe options;
  options.method = "prox";
  options.draw = "head-blocks";
  options.step = of(settings, "step", 10);
  options.epochs = static_cast<std::uint64_t>(of(settings, "epochs", 3));
  options.threads = 1;
  const auto rounds = static_cast<std::size_t>(of(settings, "rounds", 5));
  const auto threads = static_cast<std::size_t>(of(settings, "threads", 2));
  RunState state = make_state(data, options);
  const std::atomic<bool> stop{false};
  StepLoop loop(data, plan_of(data, options));
  while (state.epoch < options.epochs) loop.run(state, stop, nullptr);
  const Weights& weights = state.weights;

  const Dataset part =
      first_rows(data, std::min(data.rows.rows(), static_cast<std::size_t>(of(settings, "part", 32768))));
  const std::size_t count = part.rows.rows();
  const double n = static_cast<double>(count);
  const CsrView rows = part.rows.view();

  // Correctness first.
  const double baseline = evaluate_class_frequencies(data).log_loss;
  const std::vector<std::uint32_t> rank = part.classes->name_ranks();
  PassOptions pass{.top = 5, .threads = 1, .tie_rank = rank, .stop = nullptr};
  const PassResult fast = softmax_pass(weights, rows, pass);
  pass.numbers = PassNumbers::doubles;
  double start = thread_seconds();
  const PassResult slow = softmax_pass(weights, rows, pass);
  const double slow_seconds = thread_seconds() - start;
  double furthest = 0, loss = 0;
  for (std::size_t r = 0; r < count; ++r) {
    const ClassId y = part.label[r];
    const auto at = static_cast<std::size_t>(std::find(&fast.best[r * 5], &fast.best[(r + 1) * 5], y) -
                                             &fast.best[r * 5]);
    const double z = score(weights, part.rows.row(r), y);
    const double difference = fast.loss(r, at < 5 ? fast.best_score[r * 5 + at] : z) - slow.loss(r, z);
    furthest = std::max(furthest, std::abs(difference));
    loss += slow.loss(r, z) / n;
  }
  if (fast.best != slow.best || !(furthest < 1e-5) || !(loss < baseline)) {
    fmt::print(stderr, "best classes {}, losses off by {}, log-loss {} of {}: nothing to time\n",
               fast.best == slow.best ? "equal" : "differ", furthest, loss, baseline);
    return 1;
  }

  double evaluation = 1e300, evaluation_wall = 1e300, evaluation_many = 1e300, bound = 1e300,
         prediction = 1e300, peak = 0;
  double wall = 1e300;
  const auto time = [&wall](double& best, const auto& work) {
    const double begin = thread_seconds(), begin_wall = now();
    work();
    best = std::min(best, thread_seconds() - begin);
    wall = now() - begin_wall;
  };
  pass.numbers = PassNumbers::automatic;
  pass.refine = true;  // as prediction does
  for (std::size_t round = 0; round < rounds; ++round) {
    time(evaluation, [&] { evaluate(weights, part, 1); });
    evaluation_wall = std::min(evaluation_wall, wall);
    for (const bool soon : {false, true})  // the faster of the two is the bound
      time(bound, [&] { touch(weights, rows, soon); });
    double unused = 1e300;
    time(unused, [&] { evaluate(weights, part, threads); });
    evaluation_many = std::min(evaluation_many, wall);
    time(prediction, [&] { softmax_pass(weights, rows, pass); });
    start = thread_seconds();
    const double operations = HWY_DYNAMIC_DISPATCH(multiply_add_here)(5000000);
    peak = std::max(peak, operations / (thread_seconds() - start));
  }
  const double lines = static_cast<double>(part.rows.nonzeros()) * static_cast<double>(weights.blocks());
  const double operations = 2 * lines * static_cast<double>(kLanes);
  nlohmann::ordered_json out{{"file", path},
                             {"rows", count},
                             {"classes", weights.classes()},
                             {"features", weights.features()},
                             {"nonzeros_per_row", static_cast<double>(part.rows.nonzeros()) / n},
                             {"log_loss", loss},
                             {"largest_difference_to_double", furthest},
                             {"evaluate_rows_per_second", n / evaluation},
                             {"bound_rows_per_second", n / bound},
                             {"fraction_of_bound", bound / evaluation},
                             {"double_rows_per_second", n / slow_seconds},
                             {"lines_per_second", lines / evaluation},
                             {"peak_gflops", peak * 1e-9},
                             {"fraction_of_peak", operations / evaluation / peak},
                             {"threads", threads},
                             {"threads_ratio", evaluation_wall / evaluation_many},
                             {"predict_rows_per_second", n / prediction}};
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace truemax
#endif  // HWY_ONCE

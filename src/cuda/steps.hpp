// Steps of one row and whole blocks of classes, many at once, without locks: a step may read weights while
// another adds to them.
//
// A warp takes up to 32 steps. Each thread prepares one of them: the row, the label, the drawn blocks. Then
// kSteps at a time are scored, half a warp for each block, solved by 32/kSteps threads each, and added to W.
// So every access to W is a line of 64 bytes, all threads take the same way through the code, and few steps
// are between their scores and their updates.
#pragma once

#include "core/permutation.hpp"
#include "cuda/problem.hpp"
#include "cuda/thread.hpp"
#include "device/engine.hpp"
#include "rule/descent_scalar.hpp"
#include "solve/row_scalar.hpp"

namespace truemax::cuda {

// The example of a position in an epoch.
struct Order {
  enum Kind : std::uint32_t { shuffled, random, as_they_are };
  Kind kind;
  RandomPermutation permutation;
  std::uint64_t key;  // of random examples
  std::uint32_t count;
  TRUEMAX_HOST_DEVICE std::uint32_t at(std::uint64_t position) const;
};

// What the steps of a launch have in common.
struct StepTerms {
  std::uint64_t first, count;  // positions in the epoch
  Order order;
  double step, last_step;        // of a row with weight 1: of the first step, and one after the last
  double rho;                    // mirror strength of the first step; 0: u is recomputed from scratch
  bool rho_falls;                // with the step
  double scale, decay, falling;  // W is scale exp(-decay t (1 + falling t)) times its memory: the ridge
  double most_growth;            // of a step; a larger one is not taken
};

// What the steps of a launch report.
struct StepReport {
  double growth;            // upper bound on the growth of any number in memory
  std::uint64_t refused;    // 1 + the last position whose step was not taken; 0: none
  std::uint64_t in_double;  // steps that float32 could not solve
};

// The high 64 bits of a product.
TRUEMAX_HOST_DEVICE inline std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
#endif
}

TRUEMAX_HOST_DEVICE inline int count_bits(std::uint32_t x) {
#ifdef __CUDA_ARCH__
  return __popc(x);
#else
  return __builtin_popcount(x);
#endif
}

// 64 random bits of a position.
TRUEMAX_HOST_DEVICE inline std::uint64_t random_word(std::uint64_t key, std::uint64_t position) {
  std::uint64_t z = key + position * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDULL;
  return z ^ (z >> 33);
}

TRUEMAX_HOST_DEVICE inline std::uint32_t pick(const Draw& draw, std::uint64_t word) {
  const std::uint64_t n = draw.blocks - draw.head;
  const auto cell = static_cast<std::uint32_t>(high_product(word, n));
  return word * n < draw.cells[cell].keep ? cell : draw.cells[cell].other;
}

TRUEMAX_HOST_DEVICE inline std::uint32_t Order::at(std::uint64_t position) const {
  if (kind == shuffled) return permutation.at(static_cast<std::uint32_t>(position));
  if (kind == random) return static_cast<std::uint32_t>(high_product(random_word(key, position), count));
  return static_cast<std::uint32_t>(position);
}

// kWidth threads that share the classes of a step, as solve/ sees them.
template <int kWidth>
struct Together {
  Warp warp;
  template <class Real>
  TRUEMAX_KERNEL Real sum(Real x) const {
    return warp.template sum_of<kWidth>(x);
  }
  template <class Real>
  TRUEMAX_KERNEL void sum_both(Real& x, Real& y) const {
    warp.template sum_both_of<kWidth>(x, y);
  }
  template <class Real>
  TRUEMAX_KERNEL Real highest(Real x) const {
    return warp.template highest_of<kWidth>(x);
  }
  TRUEMAX_KERNEL bool any(bool holds) const { return warp.any(holds); }
};

// kSlots: blocks of a step at most; even. kSteps: that are solved together; 1, 2 or 4, and 1 for methods in
// double.
template <class Method, int kSlots, int kSteps>
struct TakeSteps {
  PackedRows rows;
  Examples examples;
  Matrix matrix;
  Draw draw;
  StepTerms terms;
  Method method;
  StepReport* report;

  static constexpr int kLeastBlocks = kSlots <= 8 ? 4 : kSlots <= 16 ? 3 : 2;  // of 256 threads
  static constexpr int kWarp = 32;
  static constexpr int kWidth = kWarp / kSteps;                      // threads that solve a step
  static constexpr int kClasses = kSlots * kBlock;                   // of a step
  static constexpr int kEach = kClasses / kWidth;                    // of a thread that solves
  static constexpr int kPairs = kSlots / 2;                          // of blocks
  static constexpr int kRow = kClasses + (kSteps > 1 ? kWidth : 0);  // steps use different banks of memory
  static_assert(Method::kInFloat || kSteps == 1);

  struct alignas(16) Prepared {  // a step
    std::uint64_t begin;         // of the row
    std::uint32_t length;
    std::uint32_t label;
    float s, e, u, scale;
    std::uint32_t example;
    float share;
    std::uint32_t unused[2];
  };
  struct Memory {  // of a warp
    float score[kSteps][kRow];
    float weight[kSteps][kSlots];
    std::uint32_t block[kSteps][kSlots];
    std::uint32_t drawn[kWarp][kSlots];
    Prepared step[kWarp];
  };
  static constexpr std::size_t kBytes = sizeof(Memory);

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Warp warp = t.warp();
    Memory& m = reinterpret_cast<Memory*>(t.shared)[t.number() / kWarp];
    const std::uint64_t in_block = t.threads() / kWarp, warps = t.blocks() * in_block;
    const std::uint64_t number = t.block() * in_block + t.number() / kWarp;
    // Consecutive steps, shared out evenly.
    const std::uint64_t begin = terms.count * number / warps, end = terms.count * (number + 1) / warps;
    float growth = 0;
    for (std::uint64_t at = begin; at < end; at += kWarp) {
      const int steps = static_cast<int>(end - at < std::uint64_t{kWarp} ? end - at : std::uint64_t{kWarp});
      prepare(warp, m, at, steps);
      for (int first = 0; first < steps; first += kSteps)
        growth += take(warp, m, at, first, steps - first < kSteps ? steps - first : kSteps);
      warp.sync();
    }
    growth = warp.sum(growth);
    if (warp.lane() == 0 && growth > 0) add(&report->growth, static_cast<double>(growth));
  }

 private:
  TRUEMAX_KERNEL void prepare(const Warp& warp, Memory& m, std::uint64_t at, int steps) const {
    const int lane = warp.lane();
    if (lane < steps) {
      const std::uint64_t number = at + static_cast<std::uint64_t>(lane), position = terms.first + number;
      const std::uint32_t example = terms.order.at(position);
      const std::uint32_t row = examples.row == nullptr ? example : examples.row[example];
      Prepared mine;
      mine.begin = rows.begin[row];
      mine.length = static_cast<std::uint32_t>(rows.begin[row + 1] - mine.begin);
      mine.label = examples.label[example];
      mine.s = examples.norm[example];
      mine.u = static_cast<float>(examples.u[example]);
      // The share of the first step's size.
      const float share = 1 + static_cast<float>(number) / static_cast<float>(terms.count) *
                                  static_cast<float>(terms.last_step / terms.step - 1);
      mine.share = share;
      mine.e = static_cast<float>(terms.step) * share;
      if (examples.weight != nullptr) mine.e *= examples.weight[example];
      mine.scale = static_cast<float>(
          terms.decay == 0 ? terms.scale
                           : terms.scale * exp(-terms.decay * static_cast<double>(number) *
                                               (1 + terms.falling * static_cast<double>(number))));
      mine.example = example;
      m.step[lane] = mine;
      for (std::uint32_t d = 0; d < draw.draws; ++d)
        m.drawn[lane][d] = draw.head + pick(draw, random_word(draw.key, position * draw.draws + d));
      for (std::uint32_t r = 0; r < draw.rivals; ++r)
        m.drawn[lane][draw.draws + r] = draw.of[std::uint64_t{example} * draw.rivals + r];
    }
    warp.sync();
  }

  TRUEMAX_KERNEL float take(const Warp& warp, Memory& m, std::uint64_t at, int first, int steps) const {
    int slots[kSteps];
    TRUEMAX_UNROLL
    for (int j = 0; j < kSteps; ++j) slots[j] = j < steps ? list_blocks(warp, m, first + j, j) : 0;
    warp.sync();
    TRUEMAX_UNROLL
    for (int j = 0; j < kSteps; ++j)
      if (j < steps) score(warp, m, m.step[first + j], slots[j], j);
    warp.sync();
    const float growth = solve(warp, m, slots, at, first, steps);
    warp.sync();
    TRUEMAX_UNROLL
    for (int j = 0; j < kSteps; ++j)
      if (j < steps) apply(warp, m, m.step[first + j], slots[j], j);
    warp.sync();
    return growth;
  }

  // The head, the label's block, those that the example remembers, and each drawn one once, with weight
  // times/(mean number of draws). Returns how many they are.
  TRUEMAX_KERNEL int list_blocks(const Warp& warp, Memory& m, int from, int j) const {
    const std::uint32_t own = m.step[from].label / kBlock;
    const int draws = static_cast<int>(draw.draws), head = static_cast<int>(draw.head), lane = warp.lane();
    if (lane < head) m.block[j][lane] = static_cast<std::uint32_t>(lane), m.weight[j][lane] = 1;
    int n = head;
    if (own >= draw.head) {
      if (lane == 0) m.block[j][n] = own, m.weight[j][n] = 1;
      ++n;
    }
    // Each thread has a draw, the first of equal ones counts them; or a rival, which no draw adds to.
    const int rivals = static_cast<int>(draw.rivals);
    const bool draws_one = lane < draws, remembers = !draws_one && lane < draws + rivals;
    std::uint32_t mine = draws_one || remembers ? m.drawn[from][lane] : own;
    if (mine == device::kNoRival) mine = own;
    const std::uint32_t same = warp.same(mine), of_draws = draws == 32 ? ~0U : (1U << draws) - 1;
    const bool first = (same & ((1U << lane) - 1)) == 0, rival_too = (same & ~of_draws) != 0;
    const bool listed = mine != own && (remembers || (draws_one && first && !rival_too));
    const std::uint32_t all = warp.ballot(listed);
    if (listed) {
      const int place = n + count_bits(all & ((1U << lane) - 1));
      m.block[j][place] = mine;
      m.weight[j][place] =
          remembers ? 1 : static_cast<float>(count_bits(same)) * draw.over_mean[mine - draw.head];
    }
    return n + count_bits(all);
  }

  // Pairs of blocks that pass over a row together, and features at a time: as many as registers hold.
  static constexpr int kTile = kPairs < 4 ? kPairs : 4;
  static constexpr int kAtOnce = kTile <= 2 ? 4 : 2;

  // Calls visit(feature, value) for the features of a row. Each thread reads one of 32, and all get it from
  // there; kAtOnce follow each other without a branch, so that lines of W are on their way together.
  template <class Visit>
  TRUEMAX_KERNEL void each_feature(const Warp& warp, const Prepared& step, Visit&& visit) const {
    const auto lane = static_cast<std::uint32_t>(warp.lane());
    const std::uint32_t length = step.length;
    const Entry* const row = rows.entry + step.begin;
    for (std::uint32_t k = 0; k < length; k += kWarp) {
      const int here = static_cast<int>(smaller(length - k, std::uint32_t{kWarp}));
      const Entry entry = k + lane < length ? row[k + lane] : Entry{0, 0};
      int i = 0;
      for (; i + kAtOnce <= here; i += kAtOnce) {
        TRUEMAX_UNROLL
        for (int j = 0; j < kAtOnce; ++j)
          visit(warp.from(entry.feature, i + j), warp.from(entry.value, i + j));
      }
      for (; i < here; ++i) visit(warp.from(entry.feature, i), warp.from(entry.value, i));
    }
  }

  TRUEMAX_KERNEL void score(const Warp& warp, Memory& m, const Prepared& step, int slots, int j) const {
    const int half = warp.lane() / kBlock, lane = warp.lane() % kBlock;
    for (int first = 0; first < slots; first += 2 * kTile) {
      float sum[kTile];
      const float* line[kTile];
      TRUEMAX_UNROLL
      for (int b = 0; b < kTile; ++b) {
        const int slot = first + 2 * b + half;
        sum[b] = 0;
        line[b] = matrix.line(m.block[j][slot < slots ? slot : 0], 0) + lane;
      }
      each_feature(warp, step, [&](std::uint32_t feature, float x) {
        const std::uint64_t at = std::uint64_t{feature} * kBlock;
        TRUEMAX_UNROLL
        for (int b = 0; b < kTile; ++b) sum[b] += x * load_late(line[b] + at);
      });
      TRUEMAX_UNROLL
      for (int b = 0; b < kTile; ++b) {
        const int slot = first + 2 * b + half;
        if (slot >= kSlots) continue;
        const std::uint32_t k =
            m.block[j][slot < slots ? slot : 0] * kBlock + static_cast<std::uint32_t>(lane);
        const bool used = slot < slots && k < matrix.classes;
        float shift = matrix.intercept == nullptr ? 0 : load_late(matrix.intercept + k);
        if (matrix.shrinks_intercept) shift *= step.scale;
        m.score[j][slot * kBlock + lane] = used ? sum[b] * step.scale + shift : kNoClass;
      }
    }
    for (int p = (slots + 1) / 2 * 2 * kBlock + warp.lane(); p < kClasses; p += kWarp)
      m.score[j][p] = kNoClass;
  }

  // The classes of a step that one of kThreads threads has: those at places i kThreads + thread.
  template <int kThreads>
  struct Classes {
    float* score;  // [kClasses / kThreads], `apart` from each other
    const float* of_slot;
    float s;
    int apart;
    TRUEMAX_HOST_DEVICE static constexpr int lanes() { return kThreads < kBlock ? kBlock / kThreads : 1; }
    TRUEMAX_HOST_DEVICE static constexpr int blocks() { return kClasses / kThreads / lanes(); }
    TRUEMAX_HOST_DEVICE float weight(int b) const { return of_slot[b]; }
    TRUEMAX_HOST_DEVICE float norm(int /*b*/) const { return s; }
    TRUEMAX_HOST_DEVICE float& at(int b, int lane) const { return score[(b * lanes() + lane) * apart]; }
  };
  // The weights of the blocks of such a thread.
  template <int kThreads>
  TRUEMAX_KERNEL static void weights_of(const float* weight, int slots, int thread,
                                        float (&out)[Classes<kThreads>::blocks()]) {
    TRUEMAX_UNROLL
    for (int b = 0; b < Classes<kThreads>::blocks(); ++b) {
      const int slot = (b * Classes<kThreads>::lanes() * kThreads + thread) / kBlock;
      out[b] = slot < slots ? weight[slot] : 1;
    }
  }

  // Solves the steps: afterwards m.score has what is added to the classes. Returns a bound on the growth of
  // the weights.
  TRUEMAX_KERNEL float solve(const Warp& warp, Memory& m, const int (&slots)[kSteps], std::uint64_t at,
                             int first, int steps) const {
    if constexpr (!Method::kInFloat) {
      return solve_in_double(m, slots[0], at, first, 0);
    } else {
      const int number = warp.lane() / kWidth, thread = warp.lane() % kWidth;
      const bool there = number < steps;
      const int j = there ? number : 0, from = first + j;
      const Prepared& of = m.step[from];
      int own_slots = slots[0];
      TRUEMAX_UNROLL
      for (int i = 1; i < kSteps; ++i)
        if (i == j) own_slots = slots[i];
      const int label_at = label_place(of);
      const float s = of.s, scale = of.scale;
      ProxStep step;
      step.u = of.u, step.e = of.e;
      step.label_norm = s;
      step.inverse_rho = static_cast<float>(terms.rho > 0 ? 1 / terms.rho : 0);
      if (terms.rho_falls) step.inverse_rho = FloatMath::over(step.inverse_rho, of.share);
      float* const place = m.score[j] + thread;
      step.label_score = m.score[j][label_at];
      float z[kEach], o[Classes<kWidth>::blocks()];
      TRUEMAX_UNROLL
      for (int i = 0; i < kEach; ++i) z[i] = i * kWidth + thread == label_at ? kNoClass : place[i * kWidth];
      weights_of<kWidth>(m.weight[j], own_slots, thread, o);
      warp.sync();  // all have read what is written below
      const bool solved = method.solve(step, Classes<kWidth>{z, o, s, 1}, Together<kWidth>{warp});
      float growth = step.label_coefficient / scale * (s > 1 ? sqrtf(s) : 1);
      const bool taken = growth <= static_cast<float>(terms.most_growth);  // not if NaN
      if (there && solved) {
        TRUEMAX_UNROLL
        for (int i = 0; i < kEach; ++i)
          place[i * kWidth] = !taken ? 0 : i * kWidth + thread == label_at ? step.label_coefficient : z[i];
        if (thread == 0)
          finish(taken, at + static_cast<std::uint64_t>(from), of.example, static_cast<double>(step.u));
      }
      if (!there || !solved || !taken || thread != 0) growth = 0;
      // What float32 cannot solve.
      const std::uint32_t open = warp.ballot(there && !solved && thread == 0);
      if (open != 0) {
        TRUEMAX_UNROLL
        for (int i = 0; i < kSteps; ++i)
          if ((open >> (i * kWidth) & 1) != 0) {
            growth += solve_in_double(m, slots[i], at, first + i, i);
            if (warp.lane() == 0) add_count(&report->in_double);
          }
      }
      return growth;
    }
  }

  TRUEMAX_KERNEL int label_place(const Prepared& step) const {
    const std::uint32_t own = step.label / kBlock;
    return static_cast<int>((own < draw.head ? own : draw.head) * kBlock + step.label % kBlock);
  }

  TRUEMAX_KERNEL void finish(bool taken, std::uint64_t at, std::uint32_t example, double u) const {
    if (taken)
      examples.u[example] = u;
    else
      raise(&report->refused, terms.first + at + 1);
  }

  // One step, by all threads.
  TRUEMAX_APART float solve_in_double(Memory& m, int slots, std::uint64_t at, int from, int j) const {
    constexpr double kLeastNorm = 1e-30;  // of a row without features, whose u moves all the same
    const Warp warp;
    const int lane = warp.lane(), label_at = label_place(m.step[from]);
    const std::uint32_t example = m.step[from].example;
    float* const score = m.score[j];
    RowStep step;
    step.u = examples.u[example];
    const auto share = static_cast<double>(m.step[from].share);
    step.e = terms.step * share *
             (examples.weight == nullptr ? 1.0 : static_cast<double>(examples.weight[example]));
    step.rho = terms.rho_falls ? terms.rho * share : terms.rho;
    step.label_norm = larger(static_cast<double>(m.step[from].s), kLeastNorm);
    step.label_score = static_cast<double>(score[label_at]);
    warp.sync();  // all have read it
    if (lane == label_at % kWarp) score[label_at] = kNoClass;
    float o[Classes<kWarp>::blocks()];
    weights_of<kWarp>(m.weight[j], slots, lane, o);
    const Classes<kWarp> classes{score + lane, o, static_cast<float>(step.label_norm), kWarp};
    method.solve_in_double(step, classes, Together<kWarp>{warp});
    const double growth = step.label_coefficient * (step.label_norm > 1 ? sqrt(step.label_norm) : 1.0) /
                          static_cast<double>(m.step[from].scale);
    const bool taken = growth <= terms.most_growth;  // not if NaN
    if (!taken)
      for (int b = 0; b < Classes<kWarp>::blocks(); ++b) classes.at(b, 0) = 0;
    if (lane == label_at % kWarp) score[label_at] = taken ? static_cast<float>(step.label_coefficient) : 0;
    if (lane == 0) finish(taken, at + static_cast<std::uint64_t>(from), example, step.u);
    return taken && lane == 0 ? static_cast<float>(growth) : 0;
  }

  TRUEMAX_KERNEL static void add_count(std::uint64_t* to) {
#ifdef __CUDA_ARCH__
    atomicAdd(reinterpret_cast<unsigned long long*>(to), 1ULL);
#else
    ++*to;
#endif
  }

  TRUEMAX_KERNEL void apply(const Warp& warp, const Memory& m, const Prepared& step, int slots, int j) const {
    const int half = warp.lane() / kBlock, lane = warp.lane() % kBlock;
    const float over_scale = 1 / step.scale;
    for (int first = 0; first < slots; first += 2 * kTile) {
      float c[kTile];
      bool used[kTile];
      float* line[kTile];
      TRUEMAX_UNROLL
      for (int b = 0; b < kTile; ++b) {
        const int slot = first + 2 * b + half;
        used[b] = slot < slots;
        const std::uint32_t block = m.block[j][used[b] ? slot : 0];
        const float change = used[b] ? m.score[j][slot * kBlock + lane] : 0;
        c[b] = change * over_scale;
        line[b] = matrix.line(block, 0) + lane;
        if (matrix.intercept != nullptr && change != 0)
          add(&matrix.intercept[block * kBlock + lane], matrix.shrinks_intercept ? c[b] : change);
      }
      each_feature(warp, step, [&](std::uint32_t feature, float x) {
        const std::uint64_t at = std::uint64_t{feature} * kBlock;
        TRUEMAX_UNROLL
        for (int b = 0; b < kTile; ++b)
          if (used[b]) add(line[b] + at, c[b] * x);
      });
    }
  }
};

// prox: the proximal step, in float32 where that reaches.
struct ProxMethod {
  static constexpr bool kInFloat = true;
  template <class Classes, class Threads>
  TRUEMAX_KERNEL bool solve(ProxStep& step, const Classes& classes, const Threads& threads) const {
    return solve_prox_scalar(step, classes, threads) != 0;
  }
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    if (!(step.rho > 0)) step.rho = 1e6;  // as MirrorRate has it where all classes are drawn
    solve_prox_row_scalar(step, classes, threads);
  }
};

// implicit: the paper's proximal step, in double.
struct ImplicitMethod {
  static constexpr bool kInFloat = false;
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    solve_implicit_row_scalar(step, classes, threads);
  }
};

struct ScentMethod {
  static constexpr bool kInFloat = false;
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    if (!(step.rho > 0)) step.rho = 1e6;
    step_scent_scalar(step, classes, threads);
  }
};

struct UmaxMethod {
  static constexpr bool kInFloat = false;
  double delta, most_u;
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    step_umax_scalar(step, classes, threads, delta, most_u);
  }
};

// The accesses to memory of a step and none of its arithmetic, for benchmarks. W stays as it is.
struct TouchMethod {
  static constexpr bool kInFloat = true;
  template <class Classes, class Threads>
  TRUEMAX_KERNEL bool solve(ProxStep& step, const Classes& classes, const Threads& /*threads*/) const {
    for (int b = 0; b < Classes::blocks(); ++b)
      for (int lane = 0; lane < Classes::lanes(); ++lane) classes.at(b, lane) = 0;
    step.label_coefficient = 0;
    return true;
  }
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& /*step*/, const Classes& /*classes*/,
                                      const Threads& /*threads*/) const {}
};

}  // namespace truemax::cuda

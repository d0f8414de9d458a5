// Steps of one row and whole blocks of classes, many at once, without locks: a step may read weights while
// another adds to them.
//
// 16 threads take kSteps steps at a time. Each thread prepares and draws for its own share of them; then all
// 16 score one step after the other, a thread for each class of a block; then each step is solved by
// 16/kSteps threads; then all 16 add to W. So arithmetic of a step is done once, and every access to W is one
// line of 64 bytes.
#pragma once

#include "core/permutation.hpp"
#include "cuda/problem.hpp"
#include "cuda/thread.hpp"
#include "solve/row_scalar.hpp"

namespace truemax::cuda {

// What the steps of a launch have in common.
struct StepTerms {
  std::uint64_t first, count;  // positions in the epoch
  RandomPermutation order;
  double step;          // of a row with weight 1
  double rho;           // mirror strength; 0: u is recomputed from scratch
  double scale, decay;  // W is scale exp(-decay t) times its memory at the t-th step: the ridge
  double most_growth;   // of a step; a larger one is not taken
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

// kSlots: blocks of a step at most. kSteps: 1, 2, 4, 8 or 16. Method: solve(RowStep&, classes, threads).
template <class Method, int kSlots, int kSteps>
struct TakeSteps {
  Rows rows;
  Examples examples;
  Matrix matrix;
  Draw draw;
  StepTerms terms;
  Method method;
  StepReport* report;

  static constexpr int kShared = kBlock / kSteps;  // threads that solve a step together
  struct Memory {                                  // of a group
    float score[kSteps][kSlots][kBlock];
    float weight[kSteps][kSlots];
    std::uint32_t block[kSteps][kSlots];
  };
  static constexpr std::size_t kBytes = sizeof(Memory);

  // The classes of a step that one of its threads has.
  struct Classes {
    float (*score)[kBlock];
    const float* of_block;
    float s;
    int count, first;
    TRUEMAX_HOST_DEVICE int blocks() const { return count; }
    TRUEMAX_HOST_DEVICE static constexpr int lanes() { return kBlock / kShared; }
    TRUEMAX_HOST_DEVICE float weight(int b) const { return of_block[b]; }
    TRUEMAX_HOST_DEVICE float norm(int /*b*/) const { return s; }
    TRUEMAX_HOST_DEVICE float& at(int b, int lane) const { return score[b][lane * kShared + first]; }
  };

  // A step, as the thread with its number has it.
  struct Mine {
    std::uint64_t begin = 0, end = 0;
    std::uint32_t example = 0, label = 0;
    int slots = 0, own = 0;
    float s = 1;
  };

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Group<kBlock> group = t.template group<kBlock>();
    Memory& m = reinterpret_cast<Memory*>(t.shared)[t.number() / kBlock];
    const std::uint64_t in_block = t.threads() / kBlock;
    const std::uint64_t stride = t.blocks() * in_block * kSteps;
    double growth = 0;
    for (std::uint64_t at = (t.block() * in_block + t.number() / kBlock) * kSteps; at < terms.count;
         at += stride) {
      const int steps = static_cast<int>(terms.count - at < std::uint64_t{kSteps} ? terms.count - at
                                                                                  : std::uint64_t{kSteps});
      const Mine mine = prepare(group, m, at, steps);
      const auto scale = static_cast<float>(scale_at(at));
      for (int j = 0; j < steps; ++j) score(group, m, mine, j, scale);
      group.sync();
      growth += solve(t, m, mine, at, steps, scale);
      group.sync();
      for (int j = 0; j < steps; ++j) apply(group, m, mine, j, 1 / scale);
      group.sync();
    }
    growth = group.sum(growth);
    if (group.lane() == 0 && growth > 0) add(&report->growth, growth);
  }

 private:
  TRUEMAX_KERNEL double scale_at(std::uint64_t at) const {
    return terms.decay == 0 ? terms.scale : terms.scale * exp(-terms.decay * static_cast<double>(at));
  }

  TRUEMAX_KERNEL Mine prepare(const Group<kBlock>& group, Memory& m, std::uint64_t at, int steps) const {
    const int lane = group.lane();
    Mine mine;
    if (lane < steps) {
      mine.example = terms.order.at(static_cast<std::uint32_t>(terms.first + at) + lane);
      const std::uint32_t row = examples.row == nullptr ? mine.example : examples.row[mine.example];
      mine.label = examples.label[mine.example];
      mine.begin = rows.begin[row], mine.end = rows.begin[row + 1];
      mine.s = examples.norm[mine.example];
    }
    // All draws of all steps, shared out among the threads; `block` holds them until the list is made.
    const int draws = static_cast<int>(draw.draws), begin = kSlots - draws;
    for (int d = lane; d < steps * draws; d += kBlock)
      m.block[d / draws][begin + d % draws] =
          draw.head + pick(draw, random_word(draw.key, (terms.first + at) * draws + d));
    group.sync();
    if (lane < steps) list_blocks(m, mine, lane);
    group.sync();
    return mine;
  }

  // The head, the label's block, and each drawn one once, with weight times/(mean number of draws).
  TRUEMAX_KERNEL void list_blocks(Memory& m, Mine& mine, int j) const {
    const std::uint32_t own = mine.label / kBlock;
    const int draws = static_cast<int>(draw.draws);
    std::uint32_t* const block = m.block[j];
    float* const weight = m.weight[j];
    int n = 0;
    for (; n < static_cast<int>(draw.head); ++n) block[n] = n, weight[n] = 1;
    if (own < draw.head) {
      mine.own = static_cast<int>(own);
    } else {
      mine.own = n;
      block[n] = own, weight[n++] = 1;
    }
    const int fixed = n;
    // The list grows over places whose draws were read.
    for (int d = 0; d < draws; ++d) {
      const std::uint32_t drawn = block[kSlots - draws + d];
      if (drawn == own) continue;
      int same = fixed;
      while (same < n && block[same] != drawn) ++same;
      const float each = draw.over_mean[drawn - draw.head];
      if (same == n) {
        block[n] = drawn;
        weight[n++] = each;
      } else {
        weight[same] += each;
      }
    }
    mine.slots = n;
  }

  TRUEMAX_KERNEL void score(const Group<kBlock>& group, Memory& m, const Mine& mine, int j,
                            float scale) const {
    const int lane = group.lane(), slots = group.from(mine.slots, j);
    const std::uint64_t begin = group.from(mine.begin, j), end = group.from(mine.end, j);
    float sum[kSlots];
    const float* line[kSlots];
    for (int b = 0; b < kSlots; ++b) {
      sum[b] = 0;
      line[b] = matrix.line(b < slots ? m.block[j][b] : 0, 0) + lane;
    }
    for (std::uint64_t k = begin; k < end; ++k) {
      const std::uint64_t at = std::uint64_t{rows.index[k]} * kBlock;
      const float x = rows.value[k];
      TRUEMAX_UNROLL
      for (int b = 0; b < kSlots; ++b)
        if (b < slots) sum[b] += x * line[b][at];
    }
    for (int b = 0; b < kSlots; ++b)
      if (b < slots)
        m.score[j][b][lane] =
            sum[b] * scale +
            (matrix.intercept == nullptr ? 0 : matrix.intercept[m.block[j][b] * kBlock + lane]);
  }

  // Solves the steps; returns a bound on the growth of the weights.
  TRUEMAX_KERNEL double solve(const Thread& t, Memory& m, const Mine& mine, std::uint64_t at, int steps,
                              float scale) const {
    const Group<kBlock> group = t.template group<kBlock>();
    const Group<kShared> together = t.template group<kShared>();
    const int j = group.lane() / kShared;
    const std::uint32_t example = group.from(mine.example, j), label = group.from(mine.label, j);
    const int slots = group.from(mine.slots, j), own = group.from(mine.own, j);
    const float s = group.from(mine.s, j);
    const std::uint64_t begin = group.from(mine.begin, j), end = group.from(mine.end, j);
    const Classes classes{m.score[j], m.weight[j], s, j < steps ? slots : 0, together.lane()};
    RowStep step;
    bool solved = true;
    double growth = 0;
    if (j < steps) {
      step.u = examples.u[example];
      step.e =
          terms.step * (examples.weight == nullptr ? 1.0 : static_cast<double>(examples.weight[example]));
      step.rho = terms.rho;
      step.label_norm = static_cast<double>(s);
      step.label_score = static_cast<double>(m.score[j][own][label % kBlock]);
    }
    together.sync();  // all have read the label's score
    const auto clear_unused = [&] {
      for (int b = 0; b < classes.blocks(); ++b)
        for (int lane = 0; lane < Classes::lanes(); ++lane) {
          const std::uint32_t k =
              m.block[j][b] * kBlock + static_cast<std::uint32_t>(lane * kShared + classes.first);
          if (k == label || k >= matrix.classes) classes.at(b, lane) = kNoClass;
        }
    };
    clear_unused();
    if (j < steps) solved = method.solve(step, classes, together);
    // What float32 cannot solve is scored again, because the scores are gone, and solved in double.
    const std::uint32_t open = group.ballot(!solved && together.lane() == 0);
    for (int i = 0; i < kSteps; ++i)
      if ((open >> (i * kShared) & 1) != 0) score(group, m, mine, i, scale);
    group.sync();
    if (j < steps && !solved) {
      clear_unused();
      method.solve_in_double(step, classes, together);
      if (together.lane() == 0) add_count(&report->in_double);
    }
    together.sync();
    if (j >= steps) return 0;
    growth =
        step.label_coefficient * (s > 1 ? sqrt(static_cast<double>(s)) : 1.0) / static_cast<double>(scale);
    const bool taken = growth <= terms.most_growth;  // not if NaN
    if (!taken) {
      for (int b = 0; b < classes.blocks(); ++b)
        for (int lane = 0; lane < Classes::lanes(); ++lane) classes.at(b, lane) = 0;
      if (together.lane() == 0) raise(&report->refused, terms.first + at + static_cast<std::uint64_t>(j) + 1);
    }
    together.sync();
    if (together.lane() == 0 && taken) {
      m.score[j][own][label % kBlock] = static_cast<float>(step.label_coefficient);
      examples.u[example] = step.u;
    }
    static_cast<void>(begin), static_cast<void>(end);
    return taken && together.lane() == 0 ? growth : 0;
  }

  TRUEMAX_KERNEL static void add_count(std::uint64_t* to) {
#ifdef __CUDA_ARCH__
    atomicAdd(reinterpret_cast<unsigned long long*>(to), 1ULL);
#else
    ++*to;
#endif
  }

  TRUEMAX_KERNEL void apply(const Group<kBlock>& group, const Memory& m, const Mine& mine, int j,
                            float over_scale) const {
    const int lane = group.lane(), slots = group.from(mine.slots, j);
    const std::uint64_t begin = group.from(mine.begin, j), end = group.from(mine.end, j);
    float c[kSlots];
    float* line[kSlots];
    for (int b = 0; b < kSlots; ++b) {
      c[b] = b < slots ? m.score[j][b][lane] * over_scale : 0;
      line[b] = matrix.line(b < slots ? m.block[j][b] : 0, 0) + lane;
      if (b < slots && matrix.intercept != nullptr && c[b] != 0)
        add(&matrix.intercept[m.block[j][b] * kBlock + lane], m.score[j][b][lane]);
    }
    for (std::uint64_t k = begin; k < end; ++k) {
      const std::uint64_t at = std::uint64_t{rows.index[k]} * kBlock;
      const float x = rows.value[k];
      TRUEMAX_UNROLL
      for (int b = 0; b < kSlots; ++b)
        if (b < slots) add(&line[b][at], c[b] * x);
    }
  }
};

// prox: the proximal step, in float32 where that reaches.
struct ProxMethod {
  template <class Classes, class Threads>
  TRUEMAX_KERNEL bool solve(RowStep& step, const Classes& classes, const Threads& threads) const {
    ProxStep p;
    p.e = static_cast<float>(step.e);
    p.inverse_rho = static_cast<float>(step.rho > 0 ? 1 / step.rho : 0);
    p.u = static_cast<float>(step.u);
    p.label_score = static_cast<float>(step.label_score);
    p.label_norm = static_cast<float>(step.label_norm);
    if (solve_prox_scalar(p, classes, threads) == 0) return false;
    step.u = static_cast<double>(p.u);
    step.label_coefficient = static_cast<double>(p.label_coefficient);
    return true;
  }
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    if (!(step.rho > 0)) step.rho = 1e6;  // as MirrorRate has it where all classes are drawn
    solve_prox_row_scalar(step, classes, threads);
  }
};

// implicit: the paper's proximal step, in double.
struct ImplicitMethod {
  template <class Classes, class Threads>
  TRUEMAX_KERNEL bool solve(RowStep& step, const Classes& classes, const Threads& threads) const {
    solve_implicit_row_scalar(step, classes, threads);
    return true;
  }
  template <class Classes, class Threads>
  TRUEMAX_KERNEL void solve_in_double(RowStep& step, const Classes& classes, const Threads& threads) const {
    solve_implicit_row_scalar(step, classes, threads);
  }
};

}  // namespace truemax::cuda

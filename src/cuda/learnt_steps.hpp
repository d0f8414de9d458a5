// The kernels of a step of learnt features (train/learnt_step.hpp), between its matrix products
// (cuda/matrix.hpp). A block of threads takes a row of the step or a vector, its threads the numbers.
#pragma once

#include <cmath>

#include "cuda/learnt_problem.hpp"
#include "solve/mirror.hpp"
#include "solve/scalar_math.hpp"

namespace truemax::cuda {

// Sums and maxima over a block; all threads get them. `shared` has room for one T per warp and is free
// afterwards.
template <class T>
TRUEMAX_KERNEL T block_sum(const Thread& t, T* shared, T x) {
  const Group<32> warp = t.template group<32>();
  x = warp.sum(x);
  if (warp.lane() == 0) shared[t.number() / 32] = x;
  t.sync();
  T all = 0;
  for (std::uint32_t i = 0; i < t.threads() / 32; ++i) all += shared[i];
  t.sync();
  return all;
}
template <class T>
TRUEMAX_KERNEL T block_highest(const Thread& t, T* shared, T x) {
  const Group<32> warp = t.template group<32>();
  x = warp.highest(x);
  if (warp.lane() == 0) shared[t.number() / 32] = x;
  t.sync();
  T all = shared[0];
  for (std::uint32_t i = 1; i < t.threads() / 32; ++i) all = larger(all, shared[i]);
  t.sync();
  return all;
}

// One number of a vector moves along its gradient by RMSprop.
TRUEMAX_KERNEL inline float rms_move(float* square, float g, float rate, float keep) {
  constexpr float kTiny = 1e-8F;
  const float next = keep * *square + (1 - keep) * (g * g);
  *square = next;
  return -rate * g / (sqrtf(next) + kTiny);
}

// The places of the drawn classes, and their offsets.
struct StartStep : LearntStepData {
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint32_t stride = t.blocks() * t.threads(), me = t.block() * t.threads() + t.number();
    if (me == 0) *arrays.classes.count = 0, *arrays.features.count = 0;
    for (std::uint32_t j = me; j < run.most_drawn + terms.examples; j += stride)
      arrays.intercept_gradient[j] = 0;
    for (std::uint32_t j = me; j < terms.drawn_count; j += stride) {
      const std::uint32_t k = terms.drawn[j];
      arrays.classes.stamp[k] = terms.stamp;
      arrays.classes.place[k] = j;
      arrays.classes.vector[j] = k;
      arrays.offset[j] =
          terms.log_weight[j] + (run.tables.intercept == nullptr ? 0 : run.tables.intercept[k]);
    }
  }
};

// Rows x of examples: of a step, or of a set to evaluate.
struct EncodeRow {
  const LearntRun* run;
  Rows rows;

  // What numbers d ... d + 3 of x are before dropout; not for a layer.
  TRUEMAX_KERNEL Four numbers(std::uint32_t row, std::uint32_t d) const {
    const std::uint64_t begin = rows.begin[row], end = rows.begin[row + 1];
    Four sum{{0, 0, 0, 0}};
    if (run->kind == LearntKind::complex)
      for (std::uint32_t i = 0; i < 4; ++i) sum.at[i] = of_product(begin, end, d + i);
    else if (run->kind == LearntKind::bag)
      for (std::uint64_t j = begin; j < end; ++j)
        add_times(sum, load_four(run->feature(rows.index[j]) + d), rows.value[j]);
    else
      for (std::uint64_t j = begin; j < end; ++j)
        add_times(sum, load_four(run->feature(rows.index[j]) + d),
                  load_four(run->tables.mixing + (j - begin) * run->stride + d));
    return sum;
  }
  // Numbers c ... c + 3 of the words side by side.
  TRUEMAX_KERNEL Four words(std::uint32_t row, std::uint32_t c) const {
    const std::uint64_t j = rows.begin[row] + c / run->stride;
    if (j >= rows.begin[row + 1]) return {{0, 0, 0, 0}};
    return load_four(run->feature(rows.index[j]) + c % run->stride);
  }

 private:
  TRUEMAX_KERNEL float of_product(std::uint64_t begin, std::uint64_t end, std::uint32_t d) const {
    if (end - begin != 2 || d >= run->h) return 0;
    const float* const a = run->feature(rows.index[begin]);
    const float* const b = run->feature(rows.index[begin + 1]);
    const std::uint32_t half = run->h / 2, c = d % half;
    return d < half ? a[c] * b[c] - a[half + c] * b[half + c] : a[c] * b[half + c] + a[half + c] * b[c];
  }
};

// x of the rows, or of a layer its words side by side; and the places of the vectors that the step changes.
struct Encode : LearntStepData {
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const EncodeRow encode{&run, run.rows};
    for (std::uint32_t r = t.block(); r < terms.inputs; r += t.blocks()) {
      const std::uint32_t row = run.examples.row_of(terms.example[terms.first(r)]);
      const std::uint64_t begin = run.rows.begin[row], end = run.rows.begin[row + 1];
      if (run.kind == LearntKind::layer) {
        float* const out = arrays.words + std::uint64_t{r} * run.wide();
        for (std::uint32_t c = 4 * t.number(); c < run.wide(); c += 4 * t.threads())
          write_four(out + c, times(encode.words(row, c), run.dropout.four(terms.updates, 1, r, column(c))));
      } else {
        float* const out = x(r);
        for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads())
          write_four(out + d, times(encode.numbers(row, d), run.dropout.four(terms.updates, 0, r, d)));
      }
      for (std::uint64_t j = begin + t.number(); j < end; j += t.threads())
        if (j - begin != run.left_out) arrays.features.claim(run.rows.index[j], terms.stamp, 0);
      for (std::uint32_t i = terms.first(r) + t.number(); i < terms.first(r + 1); i += t.threads()) {
        note_last(i);
        arrays.classes.claim(label(i), terms.stamp, run.most_drawn);
        if (run.tied) arrays.features.claim(label(i), terms.stamp, 0);
      }
    }
    if (!run.tied) return;
    for (std::uint32_t j = t.block() * t.threads() + t.number(); j < terms.drawn_count;
         j += t.blocks() * t.threads())
      arrays.features.claim(terms.drawn[j], terms.stamp, 0);
  }
};

// x = tanh(x + a), and dropout.
struct TanhRows {
  float *x, *before_dropout;  // before_dropout may be null
  const float* bias;
  std::uint32_t rows, h, stride;
  DeviceDropout dropout;
  std::uint64_t updates;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < rows; r += t.blocks())
      for (std::uint32_t d = 4 * t.number(); d < stride; d += 4 * t.threads()) {
        const std::uint64_t at = std::uint64_t{r} * stride + d;
        Four y = read_four(x + at);
        for (std::uint32_t i = 0; i < 4; ++i) y.at[i] = d + i < h ? tanhf(y.at[i] + bias[d + i]) : 0;
        if (before_dropout != nullptr) write_four(before_dropout + at, y);
        write_four(x + at, times(y, dropout.four(updates, 0, r, d)));
      }
  }
};

// The scores in p become weight times probability at the new u, divided by the examples of the step;
// of_label is what the label loses.
struct Solve : LearntStepData {
  static constexpr std::size_t kBytes = 32 * sizeof(double);

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < terms.inputs; r += t.blocks()) {
      if (run.examples.input == nullptr)
        one(t, r);
      else
        together(t, r);
      for (std::uint32_t j = terms.drawn_count + t.number(); j < arrays.p_stride; j += t.threads())
        p(r)[j] = 0;
    }
  }

 private:
  TRUEMAX_KERNEL float score_of_label(const Thread& t, std::uint32_t r, std::uint32_t i) const {
    const std::uint32_t y = label(i);
    const float* const w = run.output(y);
    const float* const of = x(r);
    float sum = 0;
    for (std::uint32_t d = t.number(); d < run.h; d += t.threads()) sum += of[d] * w[d];
    sum = block_sum(t, reinterpret_cast<float*>(t.shared), sum);
    return run.tables.intercept == nullptr ? sum : sum + run.tables.intercept[y];
  }

  // p becomes exp(z + offset - base - highest), but 0 at `own`; returns the sum. highest: kLowest if there is
  // no class.
  TRUEMAX_KERNEL double exponentials(const Thread& t, float* z, float base, std::uint32_t own,
                                     float* highest) const {
    const std::uint32_t count = terms.drawn_count;
    float most = kNever;
    for (std::uint32_t j = t.number(); j < count; j += t.threads()) {
      const float at = z[j] + arrays.offset[j] - base;
      z[j] = at;
      if (j != own) most = larger(most, at);
    }
    most = block_highest(t, reinterpret_cast<float*>(t.shared), most);
    *highest = most;
    float sum = 0;
    for (std::uint32_t j = t.number(); j < count; j += t.threads()) {
      const float e = j == own || most == kNever ? 0 : expf(z[j] - most);
      z[j] = e;
      sum += e;
    }
    return block_sum(t, reinterpret_cast<double*>(t.shared), static_cast<double>(sum));
  }

  TRUEMAX_KERNEL void one(const Thread& t, std::uint32_t i) const {
    const std::uint32_t count = terms.drawn_count, own = column_of(label(i));
    float* const z = p(i);
    const float base = score_of_label(t, i, i);
    float highest = 0;
    const double sum = exponentials(t, z, base, own, &highest);
    const bool any = highest != kNever;
    const double log_sum = any ? log(sum) + static_cast<double>(highest) : -kInfinity;
    const double old = run.examples.u[terms.example[i]];
    const double u = larger(Mirror(old, terms.rho).from_log_sum(log_sum), 0.0);
    const double scale = any ? share(i) * exp(static_cast<double>(highest) - u) : 0.0;
    const auto factor = static_cast<float>(scale);
    for (std::uint32_t j = t.number(); j < count; j += t.threads()) z[j] *= factor;
    if (t.number() != 0) return;
    arrays.next_u[i] = u;
    arrays.of_label[i] = static_cast<float>(scale * sum);
  }

  // Examples of one row share its input and its scores, and each leaves its own label out.
  TRUEMAX_KERNEL void together(const Thread& t, std::uint32_t r) const {
    const std::uint32_t count = terms.drawn_count, first = terms.first(r), end = terms.first(r + 1);
    float* const z = p(r);
    for (std::uint32_t i = first; i < end; ++i) {
      const float of = score_of_label(t, r, i);
      if (t.number() == 0) arrays.label_score[i] = of;
    }
    float highest = 0;
    const double all = exponentials(t, z, 0, count, &highest);  // a barrier for label_score too
    if (highest == kNever) highest = arrays.label_score[first];
    const auto base = static_cast<double>(highest);
    const double kept = run.examples.u[run.examples.input_of(terms.example[first])] - base;
    double part = 0;
    for (std::uint32_t i = first + t.number(); i < end; i += t.threads()) {
      const std::uint32_t own = column_of(label(i));
      double others = all;
      if (own < count) {
        others -= static_cast<double>(z[own]);
        if (others < all / 2) others = sum_without(z, own);  // few digits are left of the difference
      }
      const double of_label = static_cast<double>(arrays.label_score[i]) - base;
      const double next = shared_step(kept, log_add(of_label, log(others)), of_label, terms.rho);
      const double scale = others > 0 ? share(i) * exp(-next) : 0.0;
      arrays.next_u[i] = next + base;
      arrays.scale[i] = scale;
      arrays.of_label[i] = static_cast<float>(scale * others);
      part += scale;
    }
    const double sum = block_sum(t, reinterpret_cast<double*>(t.shared), part);
    for (std::uint32_t j = t.number(); j < count; j += t.threads())
      z[j] = static_cast<float>(static_cast<double>(z[j]) * factor(terms.drawn[j], first, end, sum));
    t.sync();  // label_score is written again by the next row
  }

  // The scales of all examples but those whose label is k.
  TRUEMAX_KERNEL double factor(std::uint32_t k, std::uint32_t first, std::uint32_t end, double sum) const {
    bool is_label = false;
    for (std::uint32_t i = first; i < end; ++i) is_label = is_label || label(i) == k;
    if (!is_label) return sum;
    double others = 0;
    for (std::uint32_t i = first; i < end; ++i)
      if (label(i) != k) others += arrays.scale[i];
    return others;
  }
  TRUEMAX_KERNEL double sum_without(const float* z, std::uint32_t own) const {
    double sum = 0;
    for (std::uint32_t j = 0; j < terms.drawn_count; ++j)
      if (j != own) sum += static_cast<double>(z[j]);
    return sum;
  }

  static constexpr float kNever = -INFINITY;
  static constexpr double kInfinity = INFINITY;
};

// Finishes dx, and adds it to the gradients of the row's vectors. u moves.
struct Backward : LearntStepData {
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < terms.inputs; r += t.blocks()) {
      const std::uint32_t first = terms.first(r), end = terms.first(r + 1);
      for (std::uint32_t i = first + t.number(); i < end; i += t.threads()) move_u(i);
      const std::uint32_t row = run.examples.row_of(terms.example[first]);
      const std::uint64_t begin = run.rows.begin[row], stop = run.rows.begin[row + 1];
      float* const g = dx(r);
      for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads()) {
        Four sum = read_four(g + d);
        for (std::uint32_t i = first; i < end; ++i)
          add_times(sum, load_four(run.output(label(i)) + d), -arrays.of_label[i]);
        sum = times(sum, run.dropout.four(terms.updates, 0, r, d));
        if (run.kind == LearntKind::layer) {
          const Four y = read_four(arrays.before_dropout + std::uint64_t{r} * run.stride + d);
          for (std::uint32_t i = 0; i < 4; ++i) sum.at[i] *= 1 - y.at[i] * y.at[i];
          add_four(&arrays.mixing_gradient[std::uint64_t{run.wide()} * run.stride + d], sum);
        }
        if (run.kind == LearntKind::bag)
          for (std::uint64_t j = begin; j < stop; ++j)
            add_four(gradient(run.rows.index[j]) + d, times(sum, run.rows.value[j]));
        if (run.kind == LearntKind::places) of_places(begin, stop, d, sum);
        write_four(g + d, sum);
      }
      if (run.kind != LearntKind::complex) continue;
      t.sync();
      of_triple(t, r, begin, first);
    }
  }

 private:
  TRUEMAX_KERNEL float* gradient(std::uint32_t f) const {
    return arrays.feature_gradient + std::uint64_t{arrays.features.place[f]} * run.stride;
  }

  TRUEMAX_KERNEL void of_places(std::uint64_t begin, std::uint64_t end, std::uint32_t d,
                                const Four& g) const {
    for (std::uint64_t j = begin; j < end; ++j) {
      const std::uint32_t f = run.rows.index[j];
      const std::uint64_t at = (j - begin) * run.stride + d;
      if (j - begin != run.left_out) add_four(gradient(f) + d, times(load_four(run.tables.mixing + at), g));
      if (!run.fixed_factors) add_four(&arrays.mixing_gradient[at], times(load_four(run.feature(f) + d), g));
    }
  }

  // The gradients of entity and relation, and N3 of both and of the labels.
  TRUEMAX_KERNEL void of_triple(const Thread& t, std::uint32_t r, std::uint64_t begin,
                                std::uint32_t first) const {
    const float* const g = dx(r);
    const std::uint32_t half = run.h / 2;
    const double share = run.penalty / static_cast<double>(terms.inputs);
    const float* const weights = run.examples.weight;
    for (std::uint32_t d = t.number(); d < half; d += t.threads()) {
      const std::uint32_t of[2] = {run.rows.index[begin], run.rows.index[begin + 1]};
      const float weight = weights == nullptr ? 1 : weights[terms.example[first]];
      const auto penalty = static_cast<float>(share * static_cast<double>(weight));
      for (int role = 0; role < 2; ++role) {
        const float* const other = run.feature(of[1 - role]);
        const float re = g[d] * other[d] + g[half + d] * other[half + d];
        const float im = g[half + d] * other[d] - g[d] * other[half + d];
        add_with_penalty(of[role], d, re, im, penalty);
      }
      if (penalty > 0) add_with_penalty(label(first), d, 0, 0, penalty);
    }
  }
  TRUEMAX_KERNEL void add_with_penalty(std::uint32_t f, std::uint32_t d, float re, float im,
                                       float penalty) const {
    const std::uint32_t half = run.h / 2;
    const float* const v = run.feature(f);
    const float scale = penalty * sqrtf(v[d] * v[d] + v[half + d] * v[half + d]);
    add(gradient(f) + d, re + scale * v[d]);
    add(gradient(f) + half + d, im + scale * v[half + d]);
  }
};

// Of a layer: the gradients of the words side by side go to the words' vectors.
struct ScatterWords : LearntStepData {
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < terms.inputs; r += t.blocks()) {
      const std::uint32_t row = run.examples.row_of(terms.example[terms.first(r)]);
      const std::uint64_t begin = run.rows.begin[row];
      const auto length = static_cast<std::uint32_t>(run.rows.begin[row + 1] - begin);
      const float* const slope = arrays.slope + std::uint64_t{r} * run.wide();
      for (std::uint32_t c = 4 * t.number(); c < length * run.stride; c += 4 * t.threads()) {
        const std::uint32_t f = run.rows.index[begin + c / run.stride];
        add_four(
            arrays.feature_gradient + std::uint64_t{arrays.features.place[f]} * run.stride + c % run.stride,
            times(read_four(slope + c), run.dropout.four(terms.updates, 1, r, column(c))));
      }
    }
  }
};

// Gradients of the intercepts of drawn classes: sums of the columns of p.
struct SumColumns : LearntStepData {
  static constexpr std::uint32_t kRows = 64;  // of a block

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint32_t across = (terms.drawn_count + t.threads() - 1) / t.threads();
    const std::uint32_t down = (terms.inputs + kRows - 1) / kRows;
    for (std::uint32_t part = t.block(); part < across * down; part += t.blocks()) {
      const std::uint32_t j = part % across * t.threads() + t.number(), first = part / across * kRows;
      if (j >= terms.drawn_count) continue;
      float sum = 0;
      for (std::uint32_t r = first; r < smaller(first + kRows, terms.inputs); ++r) sum += p(r)[j];
      add(&arrays.intercept_gradient[j], static_cast<double>(sum));
    }
  }
};

// What the labels lose, added to the gradients of their classes.
struct LabelGradients : LearntStepData {
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    for (std::uint32_t r = t.block(); r < terms.inputs; r += t.blocks())
      for (std::uint32_t i = terms.first(r); i < terms.first(r + 1); ++i) {
        const float lost = arrays.of_label[i];
        if (lost == 0) continue;
        const std::uint32_t place = arrays.classes.place[label(i)];
        const float* const of = x(r);
        float* const g = arrays.class_gradient + std::uint64_t{place} * run.stride;
        for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads())
          add_four(g + d, times(read_four(of + d), -lost));
        if (t.number() == 0) add(&arrays.intercept_gradient[place], -static_cast<double>(lost));
      }
  }
};

// A vector moves along its gradient. All threads of a block take part; `shared` as for block_sum.
struct MoveVector {
  std::uint32_t h, stride;
  bool row_state;
  float rate, keep, ridge;

  TRUEMAX_KERNEL void operator()(const Thread& t, float* w, float* square, const float* gradient) const {
    if (!row_state) {
      for (std::uint32_t d = 4 * t.number(); d < stride; d += 4 * t.threads()) {
        Four now = read_four(w + d), means = read_four(square + d);
        const Four g = read_four(gradient + d);
        for (int i = 0; i < 4; ++i)
          now.at[i] += rms_move(&means.at[i], g.at[i] + ridge * now.at[i], rate, keep);
        write_four(w + d, now);
        write_four(square + d, means);
      }
      return;
    }
    float sum = 0;
    for (std::uint32_t d = t.number(); d < h; d += t.threads()) {
      const float g = gradient[d] + ridge * w[d];
      sum += g * g;
    }
    sum = block_sum(t, reinterpret_cast<float*>(t.shared), sum);
    constexpr float kTiny = 1e-8F;
    const float next = keep * *square + (1 - keep) * (sum / static_cast<float>(h));
    t.sync();
    if (t.number() == 0) *square = next;
    for (std::uint32_t d = t.number(); d < h; d += t.threads())
      w[d] -= rate / (sqrtf(next) + kTiny) * (gradient[d] + ridge * w[d]);
  }
};

// The classes that the step touches move; tied ones hand their gradients to the features.
struct MoveClasses : LearntStepData {
  static constexpr std::size_t kBytes = 32 * sizeof(double);

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const MoveVector move{run.h, run.stride, run.row_state, terms.rate, run.keep, terms.ridge};
    const std::uint32_t all = terms.drawn_count + *arrays.classes.count;
    for (std::uint32_t n = t.block(); n < all; n += t.blocks()) {
      const std::uint32_t place = n < terms.drawn_count ? n : run.most_drawn + n - terms.drawn_count;
      const std::uint32_t k = arrays.classes.vector[place];
      float* const g = arrays.class_gradient + std::uint64_t{place} * run.stride;
      if (run.tied) {
        float* const to = arrays.feature_gradient + std::uint64_t{arrays.features.place[k]} * run.stride;
        for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads()) {
          Four sum = read_four(to + d);
          add_times(sum, read_four(g + d), 1);
          write_four(to + d, sum);
        }
      } else {
        move(t, run.tables.classes + std::uint64_t{k} * run.stride,
             run.tables.classes_square + (run.row_state ? k : std::uint64_t{k} * run.stride), g);
      }
      if (place >= run.most_drawn) clear(t, g);
      if (run.tables.intercept == nullptr || t.number() != 0) continue;
      float& b = run.tables.intercept[k];
      double of = arrays.intercept_gradient[place];
      if (run.ridge_intercept) of += static_cast<double>(terms.ridge) * static_cast<double>(b);
      b += rms_move(&run.tables.intercept_square[k], static_cast<float>(of), terms.rate, run.keep);
    }
  }
};

struct MoveFeatures : LearntStepData {
  static constexpr std::size_t kBytes = 32 * sizeof(double);

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const float ridge = run.kind == LearntKind::complex ? 0 : terms.ridge;  // N3 takes its place
    const MoveVector move{run.h, run.stride, run.row_state, terms.rate, run.keep, ridge};
    const std::uint32_t all = *arrays.features.count;
    for (std::uint32_t place = t.block(); place < all; place += t.blocks()) {
      const std::uint32_t f = arrays.features.vector[place];
      float* const g = arrays.feature_gradient + std::uint64_t{place} * run.stride;
      move(t, run.tables.features + std::uint64_t{f} * run.stride,
           run.tables.features_square + (run.row_state ? f : std::uint64_t{f} * run.stride), g);
      clear(t, g);
    }
  }
};

// The factors of the places, or the layer.
struct MoveMixing : LearntStepData {
  std::uint64_t count;    // numbers
  std::uint64_t ridged;   // the first of them have a ridge
  std::uint64_t cleared;  // from here on gradients are sums, which start at zero

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < count; i += stride) {
      float& w = run.tables.mixing[i];
      const float g = arrays.mixing_gradient[i] + (i < ridged ? terms.ridge * w : 0);
      w += rms_move(&run.tables.mixing_square[i], g, terms.rate, run.keep);
      if (i >= cleared) arrays.mixing_gradient[i] = 0;
    }
  }
};

}  // namespace truemax::cuda

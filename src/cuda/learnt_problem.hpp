// What the kernels of learnt features see: the run, the arrays of a step, and the step.
//
// Vectors have `stride` numbers, h of them used and the others zero, so that rows can be read four numbers at
// a time. The words of a row side by side are `width` such vectors.
#pragma once

#include <Random123/philox.h>

#include "cuda/atomic.hpp"
#include "cuda/four.hpp"
#include "cuda/problem.hpp"
#include "cuda/thread.hpp"
#include "device/learnt.hpp"

namespace truemax::cuda {

using device::LearntKind;

struct LearntTables {
  float *features, *features_square;
  float *mixing, *mixing_square;
  float *classes, *classes_square;      // tied: `features`, and null
  float *intercept, *intercept_square;  // null without
};

struct LearntExamples {
  const std::uint32_t* row;  // null: example i is row i
  const std::uint32_t* label;
  const std::uint32_t* input;  // null: example i has u[i]
  const float* weight;         // null: all 1
  double* u;
  // By input: the number of the last step that had it, and in the lower half its last example there. Null if
  // no input has several.
  std::uint64_t* last;

  TRUEMAX_KERNEL std::uint32_t row_of(std::uint32_t i) const { return row == nullptr ? i : row[i]; }
  TRUEMAX_KERNEL std::uint32_t input_of(std::uint32_t i) const { return input == nullptr ? i : input[i]; }
};

// Which numbers of a step's rows are kept: the same function as train/dropout.cpp.
struct DeviceDropout {
  std::uint64_t seed, stream, dropped;  // of 65,536
  float factor;

  TRUEMAX_KERNEL bool none() const { return dropped == 0; }
  TRUEMAX_KERNEL float of(std::uint64_t step, std::uint64_t salt, std::uint32_t row,
                          std::uint32_t column) const {
    return none() ? 1 : at(word(step, salt, row, column), column);
  }
  // Of four columns that follow each other.
  TRUEMAX_KERNEL Four four(std::uint64_t step, std::uint64_t salt, std::uint32_t row,
                           std::uint32_t column) const {
    Four out{{1, 1, 1, 1}};
    if (none()) return out;
    std::uint64_t bits = word(step, salt, row, column);
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (i > 0 && (column + i) % 4 == 0) bits = word(step, salt, row, column + i);
      out.at[i] = at(bits, column + i);
    }
    return out;
  }

 private:
  // 16 random bits of each of four columns.
  TRUEMAX_KERNEL std::uint64_t word(std::uint64_t step, std::uint64_t salt, std::uint32_t row,
                                    std::uint32_t column) const {
    const r123::Philox4x64::key_type key{{seed, stream ^ step}};
    const r123::Philox4x64::ctr_type counter{{row, (salt << 32) + column / 16, 0, 0}};
    const r123::Philox4x64::ctr_type bits = r123::Philox4x64()(counter, key);
    const std::uint32_t i = column % 16 / 4;
    return i == 0 ? bits.v[0] : i == 1 ? bits.v[1] : i == 2 ? bits.v[2] : bits.v[3];
  }
  TRUEMAX_KERNEL float at(std::uint64_t bits, std::uint32_t column) const {
    return ((bits >> (16 * (column % 4))) & 0xFFFF) >= dropped ? factor : 0;
  }
};

struct LearntRun {
  LearntKind kind;
  std::uint32_t h, stride, width, left_out;
  std::uint32_t most_drawn;
  bool tied, fixed_factors, ridge_intercept, row_state;
  float keep;
  double penalty;
  Rows rows;
  LearntExamples examples;
  LearntTables tables;
  DeviceDropout dropout;

  TRUEMAX_KERNEL std::uint32_t wide() const { return width * stride; }
  TRUEMAX_KERNEL const float* feature(std::uint32_t f) const {
    return tables.features + std::uint64_t{f} * stride;
  }
  TRUEMAX_KERNEL const float* output(std::uint32_t k) const {
    return tables.classes + std::uint64_t{k} * stride;
  }
};

// Vectors that a step changes have a place in an array of gradients. A vector that has one carries the number
// of the step as its stamp.
struct Places {
  std::uint32_t *stamp, *place;  // by vector
  std::uint32_t* vector;         // by place
  std::uint32_t* count;          // of places

  TRUEMAX_KERNEL void claim(std::uint32_t of, std::uint32_t now, std::uint32_t first) const {
    if (stamp[of] == now || swap_in(&stamp[of], now) == now) return;
    const std::uint32_t at = first + count_up(count);
    place[of] = at;
    vector[at] = of;
  }
};

struct LearntArrays {
  float *x, *dx;          // [rows][stride]
  float* before_dropout;  // layer: tanh, [rows][stride]
  float *words, *slope;   // layer: [rows][wide]
  float* p;               // [rows][p_stride]
  std::uint64_t p_stride;
  float* offset;                             // by drawn class: intercept + log of the draw weight
  float *of_label, *label_score;             // by example
  double *scale, *next_u;                    // by example
  Places features, classes;                  // classes: the drawn ones first, others from most_drawn on
  float *feature_gradient, *class_gradient;  // [places][stride]; zero before a step, but for drawn classes
  double* intercept_gradient;                // by place of a class
  float* mixing_gradient;
};

// One step.
struct LearntTerms {
  const std::uint32_t *example, *drawn, *group;  // group null: one example each
  const float* log_weight;
  std::uint32_t examples, inputs, drawn_count;
  std::uint32_t stamp;    // not 0, another for every step
  std::uint64_t updates;  // steps before this one
  double rho;
  float rate, ridge;

  // The examples of row r.
  TRUEMAX_KERNEL std::uint32_t first(std::uint32_t r) const { return group == nullptr ? r : group[r]; }
};

struct LearntStepData {
  LearntRun run;
  LearntArrays arrays;
  LearntTerms terms;

  // Of the examples of a step that share an input, the last moves its u, as on the CPU.
  TRUEMAX_KERNEL std::uint64_t turn_of(std::uint32_t i) const {
    return (std::uint64_t{terms.stamp} << 32) + i;
  }
  TRUEMAX_KERNEL void note_last(std::uint32_t i) const {
    if (run.examples.last != nullptr)
      raise(&run.examples.last[run.examples.input_of(terms.example[i])], turn_of(i));
  }
  TRUEMAX_KERNEL void move_u(std::uint32_t i) const {
    const std::uint32_t input = run.examples.input_of(terms.example[i]);
    if (run.examples.last == nullptr || run.examples.last[input] == turn_of(i))
      run.examples.u[input] = arrays.next_u[i];
  }

  TRUEMAX_KERNEL std::uint32_t label(std::uint32_t i) const { return run.examples.label[terms.example[i]]; }
  TRUEMAX_KERNEL double share(std::uint32_t i) const {
    const float* const weight = run.examples.weight;
    return (weight == nullptr ? 1.0 : static_cast<double>(weight[terms.example[i]])) /
           static_cast<double>(terms.examples);
  }
  TRUEMAX_KERNEL float* x(std::uint32_t r) const { return arrays.x + std::uint64_t{r} * run.stride; }
  TRUEMAX_KERNEL float* dx(std::uint32_t r) const { return arrays.dx + std::uint64_t{r} * run.stride; }
  TRUEMAX_KERNEL float* p(std::uint32_t r) const { return arrays.p + r * arrays.p_stride; }
  // Sets a vector to zero. Each thread clears what it reads when the vector moves, unless it has a row state:
  // then all have read it at an exchange before.
  TRUEMAX_KERNEL void clear(const Thread& t, float* vector) const {
    if (run.row_state) t.sync();
    for (std::uint32_t d = 4 * t.number(); d < run.stride; d += 4 * t.threads())
      write_four(vector + d, {{0, 0, 0, 0}});
  }
  // The column that dropout sees of number c of the words side by side.
  TRUEMAX_KERNEL std::uint32_t column(std::uint32_t c) const {
    return c / run.stride * run.h + c % run.stride;
  }
  // The column of a class among the drawn; at least drawn_count if it is not drawn.
  TRUEMAX_KERNEL std::uint32_t column_of(std::uint32_t k) const {
    return arrays.classes.stamp[k] == terms.stamp ? arrays.classes.place[k] : 0xFFFFFFFFU;
  }
};

}  // namespace truemax::cuda

// The classes of one step and the arrays of its StepView, reused from step to step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "core/types.hpp"

namespace truemax {

struct StepArrays {
  std::vector<ClassId> classes;  // columns: those drawn, then the labels that were not
  std::size_t drawn = 0;         // columns that were drawn
  std::vector<std::uint32_t> label;
  std::vector<RowView> x;  // of the rows
  std::vector<double> score, weight, gram, ridge, intercept, row_weight, log_q, coefficient, u;

  // What the arrays take that have a number for each row and column, or two rows: the others are small.
  static std::uint64_t bytes(std::uint64_t rows, std::uint64_t columns) {
    constexpr std::uint64_t kLarge = 4;  // score, weight, coefficient, smoothed
    return (rows * columns * kLarge + rows * rows) * sizeof(double);
  }

  // Takes the memory of steps of up to so many rows and columns.
  void reserve(std::size_t rows, std::size_t columns) {
    classes.reserve(columns), places_.reserve(columns + rows);
    label.reserve(rows), x.reserve(rows), row_weight.reserve(rows), u.reserve(rows);
    for (std::vector<double>* one : {&score, &weight, &coefficient}) one->reserve(rows * columns);
    for (std::vector<double>* one : {&ridge, &intercept, &log_q}) one->reserve(columns);
  }

  void shape(std::size_t rows, std::size_t columns) {
    label.resize(rows);
    row_weight.resize(rows);
    u.resize(rows);
    score.assign(rows * columns, 0.0);
    coefficient.assign(rows * columns, 0.0);
  }

  // Starts the columns with the drawn classes.
  void take_drawn(std::span<const ClassId> drawn_classes) {
    drawn = drawn_classes.size();
    classes.assign(drawn_classes.begin(), drawn_classes.end());
  }

  // The label of the only row, which was not drawn, becomes the last column.
  void add_label(ClassId y) {
    classes.push_back(y);
    shape(1, classes.size());
    label[0] = static_cast<std::uint32_t>(drawn);
  }

  // Labels that were not drawn become columns behind those that were, each once; `label` says where each
  // row's is.
  void add_labels(std::span<const ClassId> labels) {
    places_.clear();
    for (std::size_t c = 0; c < drawn; ++c) places_.emplace_back(classes[c], static_cast<std::uint32_t>(c));
    for (const ClassId y : labels) places_.emplace_back(y, ~0U);
    std::sort(places_.begin(), places_.end());  // a drawn class stands before a label of the same class
    places_.erase(std::unique(places_.begin(), places_.end(),
                              [](const auto& one, const auto& other) { return one.first == other.first; }),
                  places_.end());
    for (auto& [k, column] : places_) {
      if (column != ~0U) continue;
      column = static_cast<std::uint32_t>(classes.size());
      classes.push_back(k);
    }
    shape(labels.size(), classes.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
      label[i] = std::lower_bound(places_.begin(), places_.end(), std::pair(labels[i], 0U))->second;
  }

 private:
  std::vector<std::pair<ClassId, std::uint32_t>> places_;  // classes and their columns, sorted
};

}  // namespace truemax

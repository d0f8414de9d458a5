// What evaluation and prediction are told: a model, data to use it on, and how to read them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/files.hpp"
#include "core/options.hpp"
#include "core/parallel.hpp"
#include "data/options.hpp"
#include "model/model.hpp"
#include "model/predict.hpp"

namespace truemax {

enum class UnknownFeatures { refuse, drop };

struct UseOptions {
  std::string model_path, data_path;
  ReadOptions read;
  std::uint64_t max_rows = 0;
  UnknownFeatures unknown_features = UnknownFeatures::refuse;
  std::uint64_t threads = 0;
  std::uint64_t memory_limit = 0;

  void describe(OptionTable& table) {
    read.describe(table);
    table.count("max-rows", &max_rows, {0, 4e9}, "Use at most so many rows of the file; 0: all.");
    table.choice(
        "unknown-features", &unknown_features,
        {{"refuse", UnknownFeatures::refuse}, {"drop", UnknownFeatures::drop}},
        "What to do with features above those of the model, where the format does not state their number.");
    table.count("threads", &threads, {0, 4096}, "Threads; 0: all cores. Never changes a result.");
    table.size(
        "memory-limit", &memory_limit,
        "Memory the model may take, such as 16G, instead of what the machine has free. 0: what is free.");
  }
  std::size_t thread_count() const {
    return threads == 0 ? available_threads() : static_cast<std::size_t>(threads);
  }
  std::uint64_t memory() const { return memory_limit == 0 ? available_memory() : memory_limit; }
  // How to read data for this model: what their content leaves open is as in the training data.
  ReadOptions read_for(const Model& model) const;
  bool drops() const { return unknown_features == UnknownFeatures::drop; }
};

// Predicts the rows of `path` a batch at a time, in memory that depends neither on N nor on K; `sink` gets
// each batch and its number of rows. Returns notes for the user: how the file was read and what was left out
// of it.
std::vector<std::string> predict_stream(
    const Model& model, const std::string& path, const UseOptions& use, std::size_t top,
    const std::function<void(const Predictions&, std::size_t rows)>& sink);

}  // namespace truemax

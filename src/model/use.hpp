// The options of evaluation and prediction: a model, data to use it on, and how to read them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/files.hpp"
#include "core/options.hpp"
#include "core/parallel.hpp"
#include "data/options.hpp"
#include "device/open.hpp"
#include "model/model.hpp"
#include "model/predict.hpp"
#include "ranks/ranks.hpp"

namespace truemax {

enum class UnknownFeatures { refuse, drop };

struct UseOptions {
  std::string model_path, data_path;
  ReadOptions read;
  std::uint64_t max_rows = 0;
  UnknownFeatures unknown_features = UnknownFeatures::refuse;
  std::uint64_t threads = 0;
  std::uint64_t memory_limit = 0;
  std::string device = device::kCpu;  // as device::Choice reads it

  void describe(OptionTable& table) {
    describe_data(table);
    device::describe(table, &device);
    describe_memory_limit(table, &memory_limit);
  }
  // The options for the data, without those for the model.
  void describe_data(OptionTable& table) {
    read.describe(table);
    describe_max_rows(table, &max_rows);
    table.choice(
        "unknown-features", &unknown_features,
        {{"refuse", UnknownFeatures::refuse}, {"drop", UnknownFeatures::drop}},
        "What to do with features above those of the model, where the format does not state their number.",
        {.brief = true});
    describe_threads(table, &threads);
  }
  // Ranks of one machine share its cores.
  std::size_t thread_count() const {
    return threads > 0 ? resolve_threads(threads)
                       : std::max<std::size_t>(1, resolve_threads(0) / ranks().here());
  }
  std::uint64_t memory_there() const {
    return memory_limit == 0 ? memory_of_each(ranks().here()) : memory_limit;
  }
  // How to read data for this model: like the training data where the content is ambiguous.
  ReadOptions read_for(const Model& model) const;
  bool drops() const { return unknown_features == UnknownFeatures::drop; }
  // --device; several ranks use the CPU. Throws UserError.
  device::Choice device_choice() const;
};

// Reads rows for prediction batch by batch, `most_rows` at most; `use_rows` gets each batch as the model's
// rows. Returns notes for the user: how the file was read and what was left out.
std::vector<std::string> each_batch(const Model& model, const std::string& path, const UseOptions& use,
                                    std::uint64_t most_rows, const std::function<void(CsrView)>& use_rows);

// Predicts the rows of `path` batch by batch, in memory that depends neither on N nor on K; `sink` gets each
// batch and its number of rows. Returns notes for the user: how the file was read and what was left out.
std::vector<std::string> predict_stream(const Model& model, const std::string& path, const UseOptions& use,
                                        std::size_t top,
                                        const std::function<void(Predictions, std::size_t rows)>& sink);

// Rows of a batch with so many results each: `most` at most, and fewer where these would fill the memory.
std::size_t rows_of_batch(std::size_t most, std::size_t results);

}  // namespace truemax

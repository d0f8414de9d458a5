// Synthetic data: rows of a Zipf-distributed class, with features partly of the class's own and partly
// common.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/options.hpp"

namespace truemax {

struct GenerateOptions {
  std::uint64_t rows = 10000;
  std::uint64_t features = 1000;
  std::uint64_t classes = 100;
  double nonzeros = 20;       // mean number of features per row
  double skew = 1.0;          // class c is drawn in proportion to (c + 1)^-skew
  double separability = 0.7;  // share of a row's features that are its class's own
  std::uint64_t seed = 1;
  std::uint64_t test_rows = 0;
  Format format = Format::xmlrepository;  // a text format

  void describe(OptionTable& table);
};

enum class Part { train, test };

struct GenerateSummary {
  std::uint64_t rows = 0, nonzeros = 0, bytes = 0;
  std::uint64_t classes = 0;  // number of distinct labels in these rows
  bool stopped = false;       // by the flag
};

// Writes the rows of a part to `sink`, piece by piece in order. Row i is a pure function of the options and
// i, so the bytes do not depend on `threads`. In the training part every class occurs at least once if there
// are enough rows; test rows use the same classes and features. Throws UserError if the options cannot be
// met.
GenerateSummary generate_rows(const GenerateOptions& options, Part part, std::size_t threads,
                              const std::function<void(std::string_view)>& sink);

// The same into a file, or to standard output for "-". `begin`, if given, is called just before the first
// byte is written; the flag it returns stops the writing. A file appears whole or not at all.
using BeginWriting = std::function<const std::atomic<bool>*()>;
GenerateSummary generate_file(const GenerateOptions& options, Part part, std::size_t threads,
                              const std::string& path, const BeginWriting& begin = {});

}  // namespace truemax

// Made-up data: rows of a Zipf-distributed class, with features partly of the class's own and partly common.
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
  double nonzeros = 20;       // mean features of a row
  double skew = 1.0;          // class c is drawn in proportion to (c + 1)^-skew
  double separability = 0.7;  // share of a row's features that come from its class's own
  std::uint64_t seed = 1;
  std::uint64_t test_rows = 0;
  Format format = Format::xmlrepository;  // a text format

  void describe(OptionTable& table);
};

enum class Part { train, test };

struct GenerateSummary {
  std::uint64_t rows = 0, nonzeros = 0, bytes = 0;
  std::uint64_t classes = 0;  // different labels in these rows
  bool stopped = false;       // by the flag
};

// Writes the rows of a part to `sink`, piece by piece in order. Row i is a pure function of the options and
// i, so the bytes depend on neither `threads` nor the run. In the training part every class stands at least
// once where there are rows enough; test rows are drawn from the same classes and features. Throws UserError
// where the options cannot be met.
GenerateSummary generate_rows(const GenerateOptions& options, Part part, std::size_t threads,
                              const std::function<void(std::string_view)>& sink);

// The same into a file, or to standard output for "-". `begin`, where there is one, is called when the first
// byte is about to be written; the flag that it returns stops the writing. A file appears whole or not at
// all.
using BeginWriting = std::function<const std::atomic<bool>*()>;
GenerateSummary generate_file(const GenerateOptions& options, Part part, std::size_t threads,
                              const std::string& path, const BeginWriting& begin = {});

}  // namespace truemax

// How a target reads rows, shared by those of data files and of the files beside them.
#pragma once

#include <string>
#include <string_view>

#include "data/options.hpp"
#include "target.hpp"

namespace truemax::fuzz {

struct RowRules {
  ReadOptions read;
  PreprocessOptions preprocess;
  bool labels_required = true;
  bool later = false;     // the same file is also read as test data and as rows to predict
  bool as_text = true;    // rows are written as text and read again; a forged cache may have other names
  std::size_t piece = 5;  // bytes at a time, in one of two readings that must agree
};

// Reads a file twice, in one window and in tiny pieces, and makes a training set of its rows. `named`: the
// file that messages must name.
bool read_rows_of(std::string_view bytes, const RowRules& rules);
bool read_rows_of(const std::string& path, const std::string& named, const RowRules& rules);

}  // namespace truemax::fuzz

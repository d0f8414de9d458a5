// What was read, in a line: rows, features and classes, or triples.
#pragma once

#include <string>

#include "data/data_view.hpp"

namespace truemax {

// An example is a row with one of its labels.
const char* example_word(LabelRule labels);
// "train   400 rows, 60 features, 12 classes, ..."
std::string counts_text(const char* name, const DataView& data, LabelRule labels);

// "stream  120 blocks of about 8192 rows, window 64 blocks (60 MB)".
std::string stream_text(const StreamedRows& rows);

}  // namespace truemax

// Files that stand beside the data: weights of rows and classes, splits.
#include <cmath>
#include <memory>
#include <set>

#include "data/sources.hpp"
#include "data/weight_files.hpp"
#include "row_targets.hpp"
#include "targets.hpp"

namespace truemax::fuzz {
namespace {

const MemoryFile& five_rows() {
  static const MemoryFile file("1 1:1\n2 2:1\n1 1:2\n3 3:1\n2 1:1 2:1\n");
  return file;
}

void require_weight(double weight) {
  require(weight == 0 || (weight >= kLeastWeight && weight <= kLargestWeight), "a weight is in its range");
}

}  // namespace

bool read_row_weight_file(std::string_view bytes) {
  const MemoryFile file(bytes);
  const auto memory = std::make_shared<MemoryBudget>(kBudget);
  const bool read = accepts(file.path(), [&] {
    for (const double weight : read_row_weights(file.path(), memory).value) require_weight(weight);
  });
  RowRules rules;
  rules.read.format = Format::libsvm;
  rules.read.row_weights = file.path();
  const bool used = read_rows_of(five_rows().path(), file.path(), rules);
  require(read || !used, "weights that are used can be read");
  return used;
}

bool read_class_weight_file(std::string_view bytes) {
  const MemoryFile file(bytes);
  const ClassList classes({"1", "2", "two words", "z\xc3\xbcrich"}, {5, 3, 2, 1});
  const auto memory = std::make_shared<MemoryBudget>(kBudget);
  return accepts(file.path(), [&] {
    const std::vector<double> weights = make_class_weights(file.path(), classes, memory);
    require(weights.empty() || weights.size() == classes.size(), "classes have weights");
    for (const double weight : weights) {
      require(weight > 0, "a class weight is positive");
      require_weight(weight);
    }
  });
}

bool read_split_file(std::string_view bytes) {
  std::uint64_t column = 1;
  if (!bytes.empty()) {
    column = 1 + static_cast<unsigned char>(bytes.front()) % 3;
    bytes.remove_prefix(1);
  }
  const MemoryFile file(bytes);
  const auto memory = std::make_shared<MemoryBudget>(kBudget);
  const bool read = accepts(file.path(), [&] {
    const auto rows = read_split(file.path(), column, 5, memory);
    require(!rows.empty(), "a split has rows");
    for (const std::uint64_t row : rows) require(row < 5, "a split names rows of the data");
    require(std::set(rows.begin(), rows.end()).size() == rows.size(), "a split names a row once");
  });
  RowRules rules;
  rules.read.format = Format::libsvm;
  rules.read.split = file.path();
  rules.read.split_column = column;
  require(read_rows_of(five_rows().path(), file.path(), rules) == read, "a split that is read is used");
  return read;
}

}  // namespace truemax::fuzz

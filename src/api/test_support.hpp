// What the tests of the C interface share: handles that free themselves, rows in arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "truemax/c.h"

namespace truemax {

// A handle that frees itself.
template <class Handle, void (*Free)(Handle*)>
struct Owned {
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Free(handle); }
  Handle** operator&() { return &handle; }     // NOLINT(google-runtime-operator)
  operator Handle*() const { return handle; }  // NOLINT(google-explicit-constructor)
  Handle* handle = nullptr;
};
using OwnedData = Owned<tmx_data, tmx_data_free>;
using OwnedModel = Owned<tmx_model, tmx_model_free>;
using OwnedRun = Owned<tmx_run, tmx_run_free>;

// CSR rows of a libsvm file, and names by number.
struct CRows {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices, labels;
  std::vector<float> values;
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::uint64_t columns = 0;

  tmx_rows view() {
    pointers.clear();
    for (const std::string& name : names) pointers.push_back(name.c_str());
    tmx_rows rows{};
    rows.size = sizeof rows;
    rows.rows = offsets.size() - 1, rows.columns = columns;
    rows.offsets = offsets.data(), rows.offset_type = TMX_INT64;
    rows.indices = indices.data(), rows.index_type = TMX_INT32;
    rows.values = values.data(), rows.value_type = TMX_FLOAT32;
    rows.numbers = values.size();
    rows.label = labels.data();
    rows.names = pointers.data(), rows.name_count = pointers.size();
    return rows;
  }
};

inline CRows read_libsvm(const std::string& path, std::uint64_t columns) {
  CRows rows;
  rows.columns = columns;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const auto at = std::find(rows.names.begin(), rows.names.end(), word);
    rows.labels.push_back(static_cast<std::int32_t>(at - rows.names.begin()));
    if (at == rows.names.end()) rows.names.push_back(word);
    while (words >> word) {
      rows.indices.push_back(std::stoi(word) - 1);
      rows.values.push_back(std::stof(word.substr(word.find(':') + 1)));
    }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.indices.size()));
  }
  return rows;
}

}  // namespace truemax

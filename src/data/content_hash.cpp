#include "data/content_hash.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "core/parallel.hpp"

namespace truemax {
namespace {

template <class Value>
std::span<const char> bytes_of(std::span<const Value> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// The hashes of what was added, in its order. Chunks have a fixed size, so that threads change nothing.
class Sums {
 public:
  explicit Sums(std::size_t threads) : threads_(threads) {}

  template <class Array>
  void add(const Array& array) {
    const std::span<const char> bytes = bytes_of(std::span<const typename Array::value_type>(array));
    constexpr std::size_t kChunk = std::size_t{1} << 20;
    const std::size_t chunks = (bytes.size() + kChunk - 1) / kChunk, first = words_.size() + 1;
    words_.push_back(bytes.size());  // what ends one array and begins the next
    words_.resize(first + chunks);
    parallel_for(chunks, threads_, [&](std::size_t c) {
      words_[first + c] = xxh64(bytes.subspan(c * kChunk, std::min(kChunk, bytes.size() - c * kChunk)));
    });
  }
  void add_names(const std::vector<std::string>& names) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < names.size(); ++i) sum += xxh64(names[i], i);
    words_.push_back(names.size());
    words_.push_back(sum);
  }
  void add_number(std::uint64_t number) { words_.push_back(number); }
  std::uint64_t total() const { return xxh64(bytes_of(std::span<const std::uint64_t>(words_))); }

 private:
  std::size_t threads_;
  std::vector<std::uint64_t> words_;
};

}  // namespace

std::uint64_t content_hash(const Dataset& data, std::size_t threads) {
  Sums sums(threads);
  const Csr& rows = data.rows.store();
  sums.add_number(data.space->features);
  sums.add(rows.begin);
  sums.add(rows.index);
  sums.add(rows.value);
  sums.add(data.example_row);
  sums.add(data.label);
  sums.add(data.weight);
  sums.add(data.row_weight);
  sums.add(data.class_weight);
  sums.add(data.label_begin);
  sums.add(data.label_set);
  sums.add_names(data.classes->names());
  sums.add_names(data.space->words);
  return sums.total();
}

}  // namespace truemax

// Blocks of the cache: whole numbers as variable-length integers, features of a row as gaps.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/cache_format.hpp"
#include "data/text_ngrams.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

enum IndexKind : char { kGaps = 0, kInOrder = 1 };
enum ValueKind : char { kOnes = 0, kBytes = 1, kFloats = 2 };

// Words of a text keep their order and may recur, as may head and relation of a triple.
bool in_order(Format format) {
  return format == Format::text || format == Format::triples;
}

void put_varint(std::vector<char>& to, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

class BlockReader {
 public:
  explicit BlockReader(std::span<const char> bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  bool varint(std::uint32_t& value) {
    std::uint64_t sum = 0;
    for (unsigned shift = 0; shift < 35 && at_ < end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      sum |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        value = static_cast<std::uint32_t>(sum);
        return sum <= 0xFFFFFFFFU;
      }
    }
    return false;
  }
  // The next `size` bytes; null if there are fewer.
  const char* take(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(end_ - at_)) return nullptr;
    return std::exchange(at_, at_ + size);
  }
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }

 private:
  const char *at_, *end_;
};

ValueKind kind_of(std::span<const float> values) {
  bool ones = true, bytes = true;
  for (const float v : values) {
    ones &= v == 1.0F;
    bytes &= v >= 1.0F && v <= 255.0F && v == std::floor(v);
  }
  return ones ? kOnes : bytes ? kBytes : kFloats;
}

template <class Value>
void put_raw(std::vector<char>& to, std::span<const Value> values) {
  const char* const from = reinterpret_cast<const char*>(values.data());
  to.insert(to.end(), from, from + values.size_bytes());
}

// Ascending offsets of `count` pieces, appended to `begin`; false unless they add up to `total`.
bool read_lengths(BlockReader& from, std::uint64_t count, std::uint64_t total,
                  std::vector<std::uint64_t>& begin) {
  std::uint64_t sum = 0;
  const std::uint64_t before = begin.back();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (!from.varint(length)) return false;
    sum += length;
    begin.push_back(before + sum);
  }
  return sum == total;
}

bool read_labels(BlockReader& from, const CacheInfo& info, const CacheBlock& block, RawRows& rows) {
  if (!read_lengths(from, block.rows, block.labels, rows.label_begin)) return false;
  for (std::uint64_t j = 0; j < block.labels; ++j) {
    std::uint32_t label = 0;
    if (!from.varint(label) || label >= info.name_count) return false;
    rows.label.push_back(label);
  }
  std::vector<std::uint32_t> sorted;
  for (std::size_t i = rows.label_begin.size() - 1 - block.rows; i + 1 < rows.label_begin.size(); ++i) {
    const std::uint64_t begin = rows.label_begin[i], end = rows.label_begin[i + 1];
    if (end - begin < 2) continue;
    sorted.assign(rows.label.begin() + static_cast<std::ptrdiff_t>(begin),
                  rows.label.begin() + static_cast<std::ptrdiff_t>(end));
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
  }
  return true;
}

bool is_feature(std::uint64_t feature, const CacheInfo& info) {
  if (feature < info.row_features()) return true;
  return info.format == Format::fasttext && feature >= kFirstBucket &&
         feature < kFirstBucket + info.ngrams.buckets;
}

bool read_ascending(BlockReader& from, const CacheInfo& info, std::uint64_t count, RawRows& rows) {
  std::uint64_t next = 0;  // the smallest number that may follow
  for (std::uint64_t j = 0; j < count; ++j) {
    std::uint32_t gap = 0;
    if (!from.varint(gap)) return false;
    const std::uint64_t feature = next + gap;
    if (!is_feature(feature, info)) return false;
    rows.rows.index.push_back(static_cast<FeatureId>(feature));
    next = feature + 1;
  }
  return true;
}

bool read_in_order(BlockReader& from, const CacheInfo& info, std::uint64_t count, RawRows& rows) {
  const bool triple = info.format == Format::triples;
  if (triple && count != 2) return false;
  for (std::uint64_t j = 0; j < count; ++j) {
    std::uint32_t word = 0;
    const std::uint64_t most = triple && j == 0 ? info.name_count : info.word_count;
    if (!from.varint(word) || word >= most) return false;
    rows.rows.index.push_back(word);
  }
  return true;
}

bool read_values(BlockReader& from, ValueKind kind, std::uint64_t count, HugeVector<float>& to) {
  if (kind == kOnes) {
    to.insert(to.end(), count, 1.0F);
    return true;
  }
  if (kind != kBytes && kind != kFloats) return false;
  const char* const bytes = from.take(kind == kBytes ? count : count * sizeof(float));
  if (bytes == nullptr) return false;
  const std::size_t before = to.size();
  to.resize(before + count);
  if (kind == kBytes)
    for (std::uint64_t j = 0; j < count; ++j)
      to[before + j] = static_cast<float>(static_cast<unsigned char>(bytes[j]));
  else if (count > 0)
    std::memcpy(&to[before], bytes, count * sizeof(float));
  return std::all_of(to.begin() + static_cast<std::ptrdiff_t>(before), to.end(),
                     [](float v) { return v != 0.0F && std::isfinite(v); });
}

bool read_weights(BlockReader& from, std::uint64_t count, std::vector<double>& to) {
  const char* const bytes = from.take(count * sizeof(double));
  if (bytes == nullptr) return false;
  const std::size_t before = to.size();
  to.resize(before + count);
  std::memcpy(&to[before], bytes, count * sizeof(double));
  return std::all_of(to.begin() + static_cast<std::ptrdiff_t>(before), to.end(),
                     [](double w) { return w == 0 || (w >= kLeastWeight && w <= kLargestWeight); });
}

}  // namespace

std::vector<char> encode_block(const RawRows& rows, Format format) {
  const Csr& x = rows.rows;
  std::vector<char> out;
  out.reserve(x.nonzeros() * 6 + rows.size() * 8);
  const ValueKind kind = kind_of({x.value.data(), x.value.size()});
  out.push_back(in_order(format) ? kInOrder : kGaps);
  out.push_back(kind);
  for (std::size_t i = 0; i < rows.size(); ++i)
    put_varint(out, static_cast<std::uint32_t>(x.begin[i + 1] - x.begin[i]));
  for (std::size_t i = 0; i < rows.size(); ++i)
    put_varint(out, static_cast<std::uint32_t>(rows.label_begin[i + 1] - rows.label_begin[i]));
  for (const std::uint32_t label : rows.label) put_varint(out, label);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    FeatureId next = 0;
    for (const FeatureId f : x.row(i).index) {
      put_varint(out, in_order(format) ? f : f - next);
      next = f + 1;
    }
  }
  if (kind == kBytes)
    for (const float v : x.value) out.push_back(static_cast<char>(static_cast<unsigned char>(v)));
  if (kind == kFloats) put_raw(out, std::span<const float>(x.value.data(), x.value.size()));
  put_raw(out, std::span<const double>(rows.weight));
  return out;
}

bool decode_block(std::span<const char> bytes, const CacheInfo& info, const CacheBlock& block,
                  RawRows& rows) {
  BlockReader from(bytes);
  const char* const kinds = from.take(2);
  if (kinds == nullptr || kinds[0] != (in_order(info.format) ? kInOrder : kGaps)) return false;
  const auto kind = static_cast<ValueKind>(kinds[1]);
  const std::size_t first = rows.size();
  if (!read_lengths(from, block.rows, block.nonzeros, rows.rows.begin)) return false;
  if (!read_labels(from, info, block, rows)) return false;
  for (std::size_t i = first; i < rows.size(); ++i) {
    const std::uint64_t count = rows.rows.begin[i + 1] - rows.rows.begin[i];
    if (!(in_order(info.format) ? read_in_order(from, info, count, rows)
                                : read_ascending(from, info, count, rows)))
      return false;
  }
  if (!read_values(from, kind, block.nonzeros, rows.rows.value)) return false;
  if (info.weighted && !read_weights(from, block.rows, rows.weight)) return false;
  return from.left() == 0;
}

}  // namespace truemax

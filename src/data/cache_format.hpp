// The cache of 'truemax convert': rows of any format in binary blocks. docs/formats.md has the layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/options.hpp"
#include "data/raw_rows.hpp"

namespace truemax {

// The first byte is not ASCII and the last is a line end, so that a copy in text mode is noticed.
inline constexpr std::string_view kCacheMagic = "\x89tmxrow\n";
inline constexpr std::uint32_t kCacheVersion = 1;
inline constexpr std::size_t kCacheHeaderBytes = 152, kBlockEntryBytes = 48;

// A block ends with the row that brings it to one of these.
inline constexpr std::uint64_t kBlockRows = 8192, kBlockNonzeros = 1U << 17;

// One block in the file.
struct CacheBlock {
  std::uint64_t offset = 0, bytes = 0, rows = 0, nonzeros = 0, labels = 0, checksum = 0;
};

// What the header says of the whole file.
struct CacheInfo {
  Format format = Format::automatic;  // of the rows as read
  std::uint64_t file_bytes = 0, rows = 0, nonzeros = 0, labels = 0, features = 0;
  bool declared = false, weighted = false;
  std::uint64_t block_count = 0, tables = 0, name_count = 0, word_count = 0;
  NgramRule ngrams;
  std::uint64_t tables_checksum = 0;

  // Features of a row must be below this; n-grams of words are above kFirstBucket.
  std::uint64_t row_features() const;
};

// Little-endian on every machine.
void put_u32(std::vector<char>& to, std::uint32_t value);
void put_u64(std::vector<char>& to, std::uint64_t value);
std::uint32_t get_u32(const char* from);
std::uint64_t get_u64(const char* from);

std::vector<char> encode_header(const CacheInfo& info);
// `head`: kCacheHeaderBytes bytes. Throws UserError that names `path`.
CacheInfo decode_header(std::span<const char> head, const std::string& path);

// The bytes of a block; `rows` has at least one row, with numbers of the whole file.
std::vector<char> encode_block(const RawRows& rows, Format format);
// Appends the rows of a block. False if the bytes are not such a block: `rows` then holds only a part.
bool decode_block(std::span<const char> bytes, const CacheInfo& info, const CacheBlock& block, RawRows& rows);

}  // namespace truemax

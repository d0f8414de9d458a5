#include "data/cache_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kDeclared = 1, kWeighted = 2, kAllFlags = 3;

// Codes are part of the file format: they never change.
constexpr std::array<Format, 8> kFormatCodes{Format::xmlrepository, Format::lshtc,   Format::libsvm,
                                             Format::fasttext,      Format::triples, Format::idx,
                                             Format::npy,           Format::text};

std::uint32_t code_of(Format format) {
  const auto at = std::find(kFormatCodes.begin(), kFormatCodes.end(), format);
  return static_cast<std::uint32_t>(at - kFormatCodes.begin()) + 1;
}

bool is_sane(const CacheInfo& info, std::uint64_t flags) {
  const NgramRule& n = info.ngrams;
  constexpr std::uint64_t kMostNgrams = 1000;
  // A row takes two bytes at least, a non-zero and a label one.
  return flags <= kAllFlags && info.rows <= kMostRows && info.features <= kMostFeatures &&
         info.tables >= kCacheHeaderBytes && info.tables <= info.file_bytes &&
         info.rows <= info.file_bytes / 2 && info.nonzeros <= info.file_bytes &&
         info.labels <= info.file_bytes && info.block_count <= info.rows &&
         info.block_count <= (info.file_bytes - info.tables) / kBlockEntryBytes &&
         info.name_count <= (info.file_bytes - info.tables) / 4 &&
         info.word_count <= (info.file_bytes - info.tables) / 4 && info.word_count < kFirstBucket &&
         n.words >= 1 && n.words <= kMostNgrams && n.characters.low <= n.characters.high &&
         n.characters.high <= kMostNgrams && n.buckets >= 1 && n.buckets <= kFirstBucket &&
         (info.word_count == 0 || has_words(info.format));
}

}  // namespace

std::uint64_t CacheInfo::row_features() const {
  return format == Format::fasttext || format == Format::text ? word_count : features;
}

void put_u32(std::vector<char>& to, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(value >> shift & 0xFF));
}

void put_u64(std::vector<char>& to, std::uint64_t value) {
  put_u32(to, static_cast<std::uint32_t>(value));
  put_u32(to, static_cast<std::uint32_t>(value >> 32));
}

std::uint32_t get_u32(const char* from) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(from[i]);
  return value;
}

std::uint64_t get_u64(const char* from) {
  return get_u32(from) | static_cast<std::uint64_t>(get_u32(from + 4)) << 32;
}

std::vector<char> encode_header(const CacheInfo& info) {
  std::vector<char> out(kCacheMagic.begin(), kCacheMagic.end());
  put_u32(out, kCacheVersion);
  put_u32(out, code_of(info.format));
  const std::uint64_t flags = (info.declared ? kDeclared : 0) | (info.weighted ? kWeighted : 0);
  for (const std::uint64_t number :
       {info.file_bytes, info.rows, info.nonzeros, info.labels, info.features, flags, kBlockRows,
        info.block_count, info.tables, info.name_count, info.word_count, info.ngrams.words,
        info.ngrams.characters.low, info.ngrams.characters.high, info.ngrams.buckets, info.tables_checksum})
    put_u64(out, number);
  put_u64(out, xxh64(out));
  return out;
}

CacheInfo decode_header(std::span<const char> head, const std::string& path) {
  if (std::string_view(head.data(), kCacheMagic.size()) != kCacheMagic)
    throw file_error(path, 0, "is no cache of truemax convert", "make one: truemax convert DATA CACHE");
  if (const std::uint32_t version = get_u32(&head[8]); version != kCacheVersion)
    throw file_error(path, 0,
                     fmt::format("is a cache of version {}, this program reads {}", version, kCacheVersion),
                     "make it again from the original: truemax convert DATA CACHE");
  const auto damaged = [&] {
    return file_error(path, 0, "the header of this cache is damaged",
                      "make it again from the original: truemax convert DATA CACHE");
  };
  constexpr std::size_t kSummed = kCacheHeaderBytes - 8;
  if (xxh64(head.first(kSummed)) != get_u64(&head[kSummed])) throw damaged();
  const std::uint32_t code = get_u32(&head[12]);
  if (code == 0 || code > kFormatCodes.size()) throw damaged();
  CacheInfo info;
  info.format = kFormatCodes[code - 1];
  std::size_t at = 16;
  std::uint64_t flags = 0, block_rows = 0;
  for (std::uint64_t* const field :
       {&info.file_bytes, &info.rows, &info.nonzeros, &info.labels, &info.features, &flags, &block_rows,
        &info.block_count, &info.tables, &info.name_count, &info.word_count, &info.ngrams.words,
        &info.ngrams.characters.low, &info.ngrams.characters.high, &info.ngrams.buckets,
        &info.tables_checksum}) {
    *field = get_u64(&head[at]);
    at += 8;
  }
  info.declared = (flags & kDeclared) != 0, info.weighted = (flags & kWeighted) != 0;
  if (!is_sane(info, flags)) throw damaged();
  return info;
}

}  // namespace truemax

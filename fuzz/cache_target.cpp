// The cache of 'truemax convert', with good ones of every format as seeds.
#include <cstring>
#include <fstream>

#include "core/checksum.hpp"
#include "data/cache_format.hpp"
#include "data/convert.hpp"
#include "row_targets.hpp"
#include "targets.hpp"

namespace truemax::fuzz {
namespace {

// Checksums that fit the bytes, as a forger writes them.
void fit_checksums(std::string& bytes) {
  constexpr std::size_t kBlocksAt = 72, kTablesAt = 80, kTablesSumAt = 136,
                        kHeadSumAt = kCacheHeaderBytes - 8;
  if (bytes.size() < kCacheHeaderBytes) return;
  const auto put = [&](std::size_t at, std::uint64_t sum) { std::memcpy(&bytes[at], &sum, sizeof sum); };
  const auto sum_of = [&](std::uint64_t at, std::uint64_t size) {
    return xxh64(std::span<const char>(bytes).subspan(at, size));
  };
  const std::uint64_t tables = get_u64(&bytes[kTablesAt]), blocks = get_u64(&bytes[kBlocksAt]);
  if (tables <= bytes.size()) {
    for (std::uint64_t b = 0; b < blocks && (b + 1) * kBlockEntryBytes <= bytes.size() - tables; ++b) {
      const std::size_t entry = tables + b * kBlockEntryBytes;
      const std::uint64_t at = get_u64(&bytes[entry]), size = get_u64(&bytes[entry + 8]);
      if (at <= bytes.size() && size <= bytes.size() - at) put(entry + 40, sum_of(at, size));
    }
    put(kTablesSumAt, sum_of(tables, bytes.size() - tables));
  }
  put(kHeadSumAt, sum_of(0, kHeadSumAt));
}

}  // namespace

// The first byte says whether the checksums are made to fit.
bool read_cache(std::string_view bytes) {
  if (bytes.empty()) return false;
  const bool forged = bytes.front() % 2 == 0;
  bytes.remove_prefix(1);
  RowRules rules;
  rules.labels_required = rules.as_text = false;
  std::string text(bytes);
  if (forged) fit_checksums(text);
  return read_rows_of(text, rules);
}

std::vector<std::string> good_caches() {
  struct Rows {
    Format format;
    const char* text;
  };
  const Rows all_rows[] = {{Format::xmlrepository, "3 9 5\n0,4 0:1.5 8:-2\n1 3:0.25\n1,2,3\n"},
                           {Format::libsvm, "a 1:1 7:2\nb 2:1e-38 3:3e38\n"},
                           {Format::fasttext, "__label__a the cat\n__label__b __label__a a dog\n"},
                           {Format::text, "one two one\n\nthree one <unk>\n"},
                           {Format::triples, "a\tr\tb\nb\ts\ta\nc\tr\tb\n"}};
  std::vector<std::string> all;
  const std::string from = scratch_folder() + "/rows", to = scratch_folder() + "/cache";
  for (const Rows& rows : all_rows) {
    std::ofstream(from, std::ios::binary) << rows.text;
    ReadOptions read;
    read.format = rows.format;
    std::vector<std::string> notes;
    convert_file(from, to, read, 0, 1, notes);
    const std::string bytes = file_bytes(to);
    all.push_back(std::string(1, '\1') + bytes);
    all.push_back(std::string(1, '\0') + bytes);
  }
  return all;
}

}  // namespace truemax::fuzz

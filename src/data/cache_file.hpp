// Reading and writing the cache of 'truemax convert' (data/cache_format.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/memory_budget.hpp"
#include "data/cache_format.hpp"
#include "data/names.hpp"

namespace truemax {

// Whether the file begins as a cache does. False for anything that is not a regular file.
bool is_cache(const std::string& path);
// `asked`, or if the file is a cache, the format of its rows. Throws UserError if both are known and differ.
Format format_in_cache(Format asked, const std::string& path);
UserError other_format_in_cache(const std::string& name, Format there, Format asked);

// An open cache. Every size is checked against the file before memory is taken, and every byte that is used
// against a checksum.
class CacheFile {
 public:
  // Throws UserError that names the file if it is damaged or cut off, or if its tables exceed the budget.
  explicit CacheFile(const std::string& path, const std::shared_ptr<MemoryBudget>& memory = nullptr);
  // A cache in memory, which outlives this.
  CacheFile(std::string name, std::span<const char> bytes);
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  const std::string& name() const { return name_; }
  const CacheInfo& info() const { return info_; }
  std::span<const CacheBlock> blocks() const { return blocks_; }
  const std::vector<std::string>& names() const { return names_; }  // of labels
  const std::vector<std::string>& words() const { return words_; }

  // Appends the rows of a block; labels and words are numbers of the whole file. Safe on several threads.
  // Throws UserError that names file and block.
  void read_block(std::size_t block, RawRows& rows) const;
  // Memory of the largest block, decoded and with its bytes.
  std::uint64_t largest_block() const;

 private:
  void open(const std::shared_ptr<MemoryBudget>& memory);
  std::vector<char> bytes_at(std::uint64_t offset, std::uint64_t size) const;
  void read_blocks(const char* entries);
  const char* read_names(const char* at, const char* end, std::uint64_t count,
                         std::vector<std::string>& names) const;
  UserError damaged(const std::string& what) const;

  std::string name_;
  int descriptor_ = -1;  // -1: in memory
  std::span<const char> bytes_;
  CacheInfo info_;
  std::vector<CacheBlock> blocks_;
  std::vector<std::string> names_, words_;
  MemoryCharge memory_;
};

// Writes a cache from batches of rows. The file appears whole, in commit(), or not at all.
class CacheWriter {
 public:
  CacheWriter(const std::string& path, Format format, const NgramRule& ngrams,
              const std::shared_ptr<MemoryBudget>& memory);

  // Blocks do not depend on how rows are divided into batches. Throws UserError, OverBudget.
  void add(const RawRows& batch);
  CacheInfo commit();

 private:
  std::vector<std::uint32_t> numbers_of(const std::vector<std::string>& names, NameStore& store);
  void add_row(const RawRows& batch, std::size_t i, std::span<const std::uint32_t> labels,
               std::span<const std::uint32_t> words);
  void end_block();
  void write(std::span<const char> bytes);

  AtomicFile file_;
  CacheInfo info_;
  std::uint64_t at_ = kCacheHeaderBytes;
  std::vector<CacheBlock> blocks_;
  NameStore names_, words_;
  RawRows rows_;  // of the block to come
  std::vector<std::pair<FeatureId, float>> sorted_;
  MemoryCharge memory_;
};

}  // namespace truemax

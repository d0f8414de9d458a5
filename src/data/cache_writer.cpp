#include <fmt/format.h>

#include <algorithm>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/cache_file.hpp"
#include "data/text_ngrams.hpp"

namespace truemax {

CacheWriter::CacheWriter(const std::string& path, Format format, const NgramRule& ngrams,
                         const std::shared_ptr<MemoryBudget>& memory)
    : file_(path), memory_(memory) {
  info_.format = format;
  if (ngrams.any()) info_.ngrams = ngrams;
}

void CacheWriter::write(std::span<const char> bytes) {
  file_.write_at(at_, bytes);
  at_ += bytes.size();
}

// By the batch's number: the number in the whole file. New names are numbered in the batch's order, which is
// that of the file.
std::vector<std::uint32_t> CacheWriter::numbers_of(const std::vector<std::string>& names, NameStore& store) {
  std::uint64_t text = 0;
  for (const std::string& name : names) text += name.size() + 1;
  const NameStore& other = &store == &names_ ? words_ : names_;
  memory_.set(store.bytes_with(names.size(), text) + other.bytes() + blocks_.capacity() * sizeof(CacheBlock));
  std::vector<std::uint32_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) numbers.push_back(store.add(name));
  return numbers;
}

void CacheWriter::add(const RawRows& batch) {
  if (batch.size() == 0) return;
  info_.features = std::max(info_.features, batch.features);
  info_.declared |= batch.declared;
  info_.weighted |= !batch.weight.empty();
  const std::vector<std::uint32_t> labels = numbers_of(batch.label_names, names_);
  const std::vector<std::uint32_t> words = numbers_of(batch.words, words_);
  if (words_.size() >= kFirstBucket)
    throw file_error(batch.path, 0, fmt::format("more than {} different words", kFirstBucket),
                     "convert fewer rows by --max-rows");
  for (std::size_t i = 0; i < batch.size(); ++i) add_row(batch, i, labels, words);
}

void CacheWriter::add_row(const RawRows& batch, std::size_t i, std::span<const std::uint32_t> labels,
                          std::span<const std::uint32_t> words) {
  const RowView row = batch.rows.row(i);
  Csr& to = rows_.rows;
  if (info_.format == Format::fasttext) {
    // Words ascend by the batch's numbers; those of the file may have another order.
    sorted_.clear();
    for (std::size_t j = 0; j < row.index.size(); ++j)
      sorted_.emplace_back(row.index[j] < kFirstBucket ? words[row.index[j]] : row.index[j], row.value[j]);
    if (!std::is_sorted(sorted_.begin(), sorted_.end())) std::sort(sorted_.begin(), sorted_.end());
    for (const auto& [feature, value] : sorted_) to.index.push_back(feature), to.value.push_back(value);
  } else {
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      const bool is_head = info_.format == Format::triples && j == 0;
      to.index.push_back(!has_words(info_.format) ? row.index[j]
                         : is_head                ? labels[row.index[j]]
                                                  : words[row.index[j]]);
    }
    to.value.insert(to.value.end(), row.value.begin(), row.value.end());
  }
  to.begin.push_back(to.index.size());
  for (std::uint64_t j = batch.label_begin[i]; j < batch.label_begin[i + 1]; ++j)
    rows_.label.push_back(labels[batch.label[j]]);
  rows_.label_begin.push_back(rows_.label.size());
  if (!batch.weight.empty()) rows_.weight.push_back(batch.weight[i]);
  if (rows_.size() >= kBlockRows || to.nonzeros() >= kBlockNonzeros) end_block();
}

void CacheWriter::end_block() {
  const std::vector<char> bytes = encode_block(rows_, info_.format);
  blocks_.push_back(
      {at_, bytes.size(), rows_.size(), rows_.rows.nonzeros(), rows_.label.size(), xxh64(bytes)});
  write(bytes);
  info_.rows += rows_.size(), info_.nonzeros += rows_.rows.nonzeros(), info_.labels += rows_.label.size();
  rows_.rows.begin.resize(1);
  rows_.rows.index.clear();
  rows_.rows.value.clear();
  rows_.label_begin.resize(1);
  rows_.label.clear();
  rows_.weight.clear();
}

CacheInfo CacheWriter::commit() {
  if (rows_.size() > 0) end_block();
  if (has_words(info_.format)) info_.features = words_.size();
  std::vector<char> tables;
  for (const CacheBlock& b : blocks_)
    for (const std::uint64_t number : {b.offset, b.bytes, b.rows, b.nonzeros, b.labels, b.checksum})
      put_u64(tables, number);
  for (const NameStore* store : {&names_, &words_})
    for (std::uint32_t i = 0; i < store->size(); ++i) {
      const std::string& name = (*store)[i];
      put_u32(tables, static_cast<std::uint32_t>(name.size()));
      tables.insert(tables.end(), name.begin(), name.end());
    }
  info_.block_count = blocks_.size(), info_.tables = at_;
  info_.name_count = names_.size(), info_.word_count = words_.size();
  info_.tables_checksum = xxh64(tables);
  write(tables);
  info_.file_bytes = at_;
  file_.write_at(0, encode_header(info_));
  file_.commit();
  return info_;
}

}  // namespace truemax

#include "data/streamed_rows.hpp"

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "core/parallel.hpp"

namespace truemax {

StreamedRows::StreamedRows(Shape shape, Load load)
    : shape_(std::move(shape)), load_(std::move(load)), held_(blocks(), nullptr) {
  std::uint32_t block = 0;
  for (std::size_t first = 0; first < rows(); first += kChunk) {
    while (shape_.row_begin[block + 1] <= first) ++block;
    block_of_chunk_.push_back(block);
  }
}

std::size_t StreamedRows::kept_blocks() const {
  constexpr std::size_t kMost = 8;
  return 2 * std::min(kMost, shape_.threads);
}

void StreamedRows::not_held() {
  throw std::logic_error("a row outside the window of a stream");
}

SharedRows StreamedRows::block(std::size_t b) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, rows] : kept_)
      if (number == b) return rows;
  }
  const std::size_t ahead = std::min(kept_blocks() / 2, blocks() - b);
  std::vector<SharedRows> read(ahead);
  parallel_for(ahead, ahead, [&](std::size_t i) { read[i] = std::make_shared<const Csr>(load_(b + i)); });
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < ahead; ++i) kept_.emplace_back(b + i, read[i]);
  if (kept_.size() > kept_blocks())
    kept_.erase(kept_.begin(), kept_.end() - static_cast<std::ptrdiff_t>(kept_blocks()));
  return read[0];
}

RowWindows::~RowWindows() {
  if (pending_.valid()) pending_.wait();  // an error of blocks that nobody needs any more is of no interest
  std::fill(rows_->held_.begin(), rows_->held_.end(), nullptr);
}

bool RowWindows::has(std::uint32_t block) const {
  return std::any_of(loaded_.begin(), loaded_.end(), [&](const auto& b) { return b.first == block; });
}

void RowWindows::take_pending() {
  if (!pending_.valid()) return;
  Blocks read = pending_.get();
  std::move(read.begin(), read.end(), std::back_inserter(loaded_));
}

void RowWindows::load(std::span<const std::uint32_t> blocks) {
  Blocks read;
  for (const std::uint32_t b : blocks)
    if (!has(b)) read.emplace_back(b, nullptr);
  parallel_for(read.size(), rows_->shape_.threads, [&](std::size_t i) {
    read[i].second = std::make_shared<const Csr>(rows_->load_(read[i].first));
  });
  std::move(read.begin(), read.end(), std::back_inserter(loaded_));
}

void RowWindows::enter(std::span<const std::uint32_t> now, std::span<const std::uint32_t> next) {
  const auto wanted = [&](std::uint32_t block) {
    return std::find(now.begin(), now.end(), block) != now.end() ||
           std::find(next.begin(), next.end(), block) != next.end();
  };
  {  // the steps of this window may not begin before its blocks are there
    std::fill(rows_->held_.begin(), rows_->held_.end(), nullptr);
    take_pending();
    std::erase_if(loaded_, [&](const auto& b) { return !wanted(b.first); });
    load(now);
  }
  for (const auto& [block, rows] : loaded_) rows_->held_[block] = rows.get();
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t b : next)
    if (!has(b)) missing.push_back(b);
  if (missing.empty()) return;
  try {
    pending_ = std::async(std::launch::async, [rows = rows_, blocks = std::move(missing)] {
      Blocks read;
      for (const std::uint32_t b : blocks) read.emplace_back(b, std::make_shared<const Csr>(rows->load_(b)));
      return read;
    });
  } catch (const std::system_error&) {  // no thread to be had: the next window is read when it is needed
  }
}

}  // namespace truemax

#include "model/tensor_rows.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/checksum.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {

std::uint64_t row_checksum(std::span<const float> row, std::uint64_t number) {
  return xxh64({reinterpret_cast<const char*>(row.data()), row.size_bytes()}, number);
}

UserError damaged(const std::string& path, const std::string& what) {
  return file_error(path, 0, fmt::format("{} has a wrong checksum: the file is damaged", what),
                    "copy it again, or train again");
}

void TensorRows::Reader::read(std::uint64_t number, std::span<float> row) {
  in_.seekg(static_cast<std::streamoff>(of_.begin_ + number * row.size_bytes()));
  Found found = Found::good;
  if (!in_.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(row.size_bytes())))
    found = Found::cut_off;
  else if (!std::isfinite(largest_absolute(row.data(), row.size())))
    found = Found::not_finite;
  if (of_.with_checksum_) sum_ += row_checksum(row, number);  // while the row is in the cache
  if (found == Found::good) return;
  in_.clear();
  const std::lock_guard lock(of_.mutex_);
  if (of_.bad_ == Found::good || number < of_.bad_row_) of_.bad_row_ = number, of_.bad_ = found;
}

void TensorRows::require_rows(const std::function<std::string(std::uint64_t row)>& what) const {
  if (bad_ == Found::cut_off)
    throw file_error(path_, 0, fmt::format("{} is cut off", what(bad_row_)), "copy the file again");
  if (bad_ == Found::not_finite)
    throw file_error(path_, 0, fmt::format("{} holds a number that is not finite", what(bad_row_)),
                     "train again");
}

void TensorRows::require_sum(const std::string& tensor, std::optional<std::uint64_t> checksum,
                             std::uint64_t sum) const {
  if (checksum && *checksum != sum) throw damaged(path_, fmt::format("the tensor '{}'", tensor));
}

}  // namespace truemax

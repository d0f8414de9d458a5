#include "model/weights_on_disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "model/tensor_rows.hpp"

namespace truemax {
namespace {

void read_at(int descriptor, const std::string& path, std::uint64_t at, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw file_error(path, 0,
                       got < 0 ? fmt::format("it cannot be read ({})", std::strerror(errno))
                               : std::string("it has become shorter while it was used"),
                       "leave the model's files as they are, and start again");
    at += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

WeightsOnDisk::WeightsOnDisk(const CheckedHeader& h, const ClassList& classes, std::vector<ClassId> order,
                             std::span<const std::uint32_t> rank, std::size_t threads)
    : features_(h.columns), order_(std::move(order)), row_of_(order_.size()) {
  for (std::uint32_t r = 0; r < order_.size(); ++r) row_of_[order_[r]] = r;
  for (const ModelPart& part : h.parts)
    parts_.push_back({part.path, part.first, part.rows, part.file.tensors.at("weight" + part.ending).begin,
                      Descriptor(part.path)});
  check(h, classes, rank, threads);
  if (h.intercept) read_intercepts(h, rank);
}

WeightsOnDisk::Descriptor::Descriptor(const std::string& path)
    : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (number_ < 0)
    throw file_error(path, 0, fmt::format("it cannot be read ({})", std::strerror(errno)),
                     "check its permissions");
}

WeightsOnDisk::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

void WeightsOnDisk::check(const CheckedHeader& h, const ClassList& classes,
                          std::span<const std::uint32_t> rank, std::size_t threads) {
  std::atomic<std::uint64_t> sum{0};
  for (const ModelPart& part : h.parts) {
    TensorRows tensor(part.path, part.file.tensors.at("weight" + part.ending).begin,
                      part.checksums.has_value());
    constexpr std::size_t kRows = 1024;  // per chunk
    parallel_for((part.rows + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
      TensorRows::Reader reader(tensor);
      std::vector<float> row(features_);
      std::uint64_t here = 0;
      for (std::uint64_t r = chunk * kRows; r < std::min<std::uint64_t>(part.rows, (chunk + 1) * kRows);
           ++r) {
        reader.read(r, row);
        here += row_checksum(row, rank[order_[part.first + r]]);
      }
      sum.fetch_add(here, std::memory_order_relaxed);
    });
    tensor.require_rows([&](std::uint64_t r) {
      return "the weight of class " + in_quotes(classes.name(order_[part.first + r]));
    });
    tensor.require_sum("weight", part.checksums ? std::optional(part.checksums->weight) : std::nullopt,
                       tensor.sum());
  }
  checksum_ = sum.load();
}

void WeightsOnDisk::read_intercepts(const CheckedHeader& h, std::span<const std::uint32_t> rank) {
  intercept_.resize(order_.size());
  std::vector<float> by_name(order_.size());
  for (const ModelPart& part : h.parts) {
    std::vector<float> of_part(part.rows);
    TensorRows tensor(part.path, part.file.tensors.at("intercept" + part.ending).begin,
                      part.checksums.has_value());
    TensorRows::Reader(tensor).read(0, of_part);
    tensor.require_rows([](std::uint64_t) { return "the intercept"; });
    tensor.require_sum("intercept", part.checksums ? std::optional(part.checksums->intercept) : std::nullopt,
                       tensor.sum());
    for (std::uint64_t r = 0; r < part.rows; ++r) {
      const ClassId k = order_[part.first + r];
      intercept_[k] = by_name[rank[k]] = of_part[r];
    }
  }
  intercept_checksum_ = row_checksum(by_name, 0);
}

void WeightsOnDisk::read(ClassId k, std::span<float> w) const {
  read_rows(row_of_[k], 1, w.data());
}

void WeightsOnDisk::read_rows(std::uint64_t first, std::size_t count, float* w) const {
  for (const Part& part : parts_) {
    if (first >= part.first + part.rows) continue;
    const std::size_t here = std::min<std::uint64_t>(count, part.first + part.rows - first);
    const std::uint64_t row_bytes = features_ * sizeof(float);
    read_at(part.descriptor.number(), part.path, part.begin + (first - part.first) * row_bytes,
            {reinterpret_cast<char*>(w), here * row_bytes});
    first += here, count -= here, w += here * features_;
    if (count == 0) return;
  }
}

}  // namespace truemax

// W and intercepts that stay in the model's files: single classes are read where they are needed, so a
// process takes no memory for W. The files must not change meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/model.hpp"
#include "model/model_header.hpp"

namespace truemax {

class WeightsOnDisk {
 public:
  // order: the class of each row of all parts. rank: of each class in the order of names. Reads everything
  // once, and checks it as load_model does. Throws UserError.
  WeightsOnDisk(const CheckedHeader& h, const ClassList& classes, std::vector<ClassId> order,
                std::span<const std::uint32_t> rank, std::size_t threads);
  std::size_t classes() const { return row_of_.size(); }
  std::size_t features() const { return features_; }
  bool has_intercept() const { return !intercept_.empty(); }
  float intercept(ClassId k) const { return intercept_.empty() ? 0.0F : intercept_[k]; }
  // Any thread. Throws UserError if the file can no longer be read.
  void read(ClassId k, std::span<float> w) const;
  // Rows first ... of the files, [count][features]; rows(first, count) are their classes.
  void read_rows(std::uint64_t first, std::size_t count, float* w) const;
  std::span<const ClassId> rows(std::uint64_t first, std::size_t count) const {
    return std::span(order_).subspan(first, count);
  }
  // The sum of row_checksum() over all classes, numbered by name: that of a model in one file.
  std::uint64_t checksum() const { return checksum_; }
  std::uint64_t intercept_checksum() const { return intercept_checksum_; }

 private:
  class Descriptor {
   public:
    explicit Descriptor(const std::string& path);  // throws UserError
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    int number() const { return number_; }

   private:
    int number_;
  };
  struct Part {
    std::string path;
    std::uint64_t first, rows, begin;  // begin: bytes in the file
    Descriptor descriptor;
  };
  void check(const CheckedHeader& h, const ClassList& classes, std::span<const std::uint32_t> rank,
             std::size_t threads);
  void read_intercepts(const CheckedHeader& h, std::span<const std::uint32_t> rank);

  std::size_t features_;
  std::vector<Part> parts_;
  std::vector<ClassId> order_;         // by row
  std::vector<std::uint32_t> row_of_;  // by class
  std::vector<float> intercept_;       // by class; empty: none
  std::uint64_t checksum_ = 0, intercept_checksum_ = 0;
};

// A model without its `weights`, which are beside it.
struct ModelOnDisk {
  Model model;
  std::unique_ptr<WeightsOnDisk> weights;
};
// As load_model; for one process. Throws UserError.
ModelOnDisk open_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads);

}  // namespace truemax

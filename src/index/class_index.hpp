// An index of the classes for finding the best of a row without scoring all of them: classes in cells of
// similar vectors [w_k, b_k], and W as bytes in the order of the cells. docs/topk-index.md explains it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "index/class_vectors.hpp"
#include "weights/byte_classes.hpp"

namespace truemax {

// How many cells a row looks into, and what that found where it was measured.
struct IndexEffort {
  std::uint64_t probes = 0;                  // cells of a row; 0: not known yet
  std::uint64_t top = 0;                     // of the measurement
  std::uint64_t rows = 0;                    // rows searched exactly; 0: none
  double target = 0, recall = 0, error = 0;  // error: half of the 95% interval

  nlohmann::ordered_json to_json() const;
};

struct ClassIndex {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::size_t cells() const { return begin.empty() ? 0 : begin.size() - 1; }
  std::uint64_t bytes() const {
    return classes.bytes() + centres.bytes() +
           (rank.size() + begin.size() + 3 * members.size()) * sizeof(float);
  }

  WeightsMark mark;
  ByteClasses classes;                 // by place: cell after cell, each from the start of a block
  std::vector<std::uint32_t> rank;     // by place: the class, as its number in the order of names, or kNobody
  ByteClasses centres;                 // the mean of each cell
  std::vector<std::uint32_t> begin;    // [cells + 1], blocks of `classes`
  std::vector<std::uint32_t> members;  // classes of each cell, at least 1
  // The variance of scores in a cell, for a row x: |x|^2 of_x + of_b.
  std::vector<float> of_x, of_b;
  double largest_square = 0;  // the largest |w_k|^2
  std::uint64_t seed = 1;
  IndexEffort effort;
};

struct IndexOptions {
  std::uint64_t cells = 0;  // 0: from K
  std::uint64_t seed = 1;

  void describe(OptionTable& table);
};

struct IndexWork {
  std::size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;
  // The work done so far, of 1.
  std::function<void(double share)> watch = {};
  bool ended() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

// `sample`: rows as the weights want them; their size tells which differences of classes matter. May be
// empty. Same seed, same bits for any number of threads. An index of no cells if it was stopped.
ClassIndex build_index(const ClassVectors& vectors, const ClassList& classes, CsrView sample,
                       const IndexOptions& options, const IndexWork& work);

// The most memory that it takes, the result included.
std::uint64_t index_building_bytes(std::size_t classes, std::size_t features, const IndexOptions& options,
                                   std::size_t threads);

// The number of cells unless options say it.
std::size_t usual_cells(std::size_t classes);

// Writes to a temporary name, syncs and renames. Throws UserError.
void save_index(const ClassIndex& index, const std::string& path);
// Reads and checks everything, and that it is of these weights. `model`: for the message. Throws UserError.
ClassIndex load_index(const std::string& path, const WeightsMark& mark, const std::string& model);
// Whether the file begins like an index.
bool is_index_file(const std::string& path);

}  // namespace truemax

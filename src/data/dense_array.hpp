// Arrays of numbers in a file: idx (MNIST) and npy (NumPy). Headers are not trusted: memory grows with the
// bytes that were read, never with a size that a header states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/input.hpp"
#include "data/options.hpp"

namespace truemax {

enum class Element { u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, truth, bytes, unicode };

struct DenseHeader {
  Element element = Element::u8;
  std::size_t item_bytes = 1;
  bool swapped = false;       // byte order differs from this machine's
  bool column_major = false;  // npy's fortran_order
  std::vector<std::uint64_t> shape;

  bool is_text() const { return element == Element::bytes || element == Element::unicode; }
  std::uint64_t rows() const { return shape[0]; }
  std::uint64_t columns() const;   // the product of the other dimensions
  std::string shape_text() const;  // (60000, 28, 28)
};

// Reads the header and leaves the input at the first item. Throws UserError on a wrong magic number, an item
// type that is neither number nor text, no dimensions, no items, or a size above 2^63 bytes.
DenseHeader read_dense_header(Input& input, Format format);

// `count` items at `from` as doubles; not for text items.
void decode_items(const DenseHeader& header, const char* from, std::size_t count, double* to);

// The labels of a one-column array, one name per row. Whole numbers or text only.
struct DenseLabels {
  std::vector<std::uint32_t> label;  // of each row, an index into names
  std::vector<std::string> names;
  MemoryCharge memory;
};
DenseLabels read_dense_labels(const std::string& path, const std::shared_ptr<MemoryBudget>& memory = nullptr);

}  // namespace truemax

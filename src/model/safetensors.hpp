// The safetensors container: 8 bytes of header length, a JSON header, raw little-endian tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace truemax {

struct TensorPlace {
  std::string type;  // "F32"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes in the file
};

struct SafetensorsHeader {
  std::map<std::string, TensorPlace> tensors;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // where the tensors start in the file
  bool regular = false;          // the JSON has only the blanks that writers put there
};

// The longest header that is read: that of the largest model, with millions of names, is far shorter.
inline constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 30;

// Reads a header and checks it against the size of the file: length, JSON, types, and offsets that cover the
// data without holes or overlaps. Throws UserError naming `path`.
SafetensorsHeader read_safetensors_header(const std::string& path);

// The length and header of a file that holds these tensors contiguously in this order.
struct NewTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  // float32
};
std::string make_safetensors_header(const std::vector<NewTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace truemax

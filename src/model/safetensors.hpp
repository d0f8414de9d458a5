// The safetensors container: 8 bytes of header length, a JSON header, raw little-endian tensors.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
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
};

// JSON, discarded where it is none. *twice: whether an object names a key twice, which would make two readers
// see two models.
nlohmann::json parse_json_once(const std::string& text, bool* twice);

// Reads and checks a header against the size of its file: length, JSON, types, offsets that cover the data
// without hole or overlap. Throws UserError naming `path`.
SafetensorsHeader read_safetensors_header(const std::string& path);

// The first bytes of a file that holds these tensors, in this order, one after the other: length and header.
struct NewTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  // float32
};
std::string make_safetensors_header(const std::vector<NewTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace truemax

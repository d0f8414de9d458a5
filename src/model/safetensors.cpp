#include "model/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "data/cache_format.hpp"
#include "model/parse_json.hpp"

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

namespace truemax {
namespace {

// Parsed, a header takes several times its text.
constexpr std::uint64_t kParsedTimes = 8;

constexpr const char* kAdvice = "this is not a complete safetensors file: copy it again, or train again";

const std::map<std::string, std::uint64_t>& type_bytes() {
  static const std::map<std::string, std::uint64_t> sizes{
      {"F64", 8},  {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4}, {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  return sizes;
}

TensorPlace read_place(const std::string& path, const std::string& name, const nlohmann::json& entry,
                       std::uint64_t data_begin, std::uint64_t data_bytes) {
  const auto bad = [&](const std::string& what) {
    return file_error(path, 0, fmt::format("tensor {} {}", in_quotes(name), what), kAdvice);
  };
  TensorPlace place;
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    throw bad("has no dtype, shape and data_offsets");
  place.type = entry["dtype"].get<std::string>();
  const auto size = type_bytes().find(place.type);
  if (size == type_bytes().end()) throw bad(fmt::format("has the unknown type {}", in_quotes(place.type)));
  std::uint64_t bytes = size->second;
  for (const auto& extent : entry["shape"]) {
    if (!extent.is_number_unsigned()) throw bad("has a shape that is not whole numbers");
    place.shape.push_back(extent.get<std::uint64_t>());
    if (__builtin_mul_overflow(bytes, place.shape.back(), &bytes))
      throw bad("has a shape too large for memory");
  }
  const auto& offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    throw bad("has data_offsets that are not whole numbers");
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_bytes)
    throw bad(fmt::format("has data_offsets {} to {}, but the file has {} bytes of data (truncated?)", begin,
                          end, data_bytes));
  if (end - begin != bytes)
    throw bad(fmt::format("has {} bytes where its shape needs {}", end - begin, bytes));
  place.begin = data_begin + begin;
  place.end = data_begin + end;
  return place;
}

// Whether valid JSON is as programs print it with an indentation.
bool is_indented_json(std::string_view text) {
  const std::string_view line = text.substr(text.find('\n') + 1);
  const int indent = static_cast<int>(std::min<std::size_t>(line.find_first_not_of(' '), 16));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.dump(indent) == text || json.dump(indent, ' ', /*ensure_ascii=*/true) == text;
}

// Whether the blanks of valid JSON are those of a writer: none but padding at the end, or one after each
// comma and colon, or those of an indentation. Other blanks would be damage that changes no value.
bool is_regular_json(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  if (text.find('\n') != std::string_view::npos) return is_indented_json(text);
  bool inside = false;
  std::size_t separators = 0, spaced = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\')
        ++i;
      else
        inside = c != '"';
    } else if (c == '"') {
      inside = true;
    } else if (c == ',' || c == ':') {
      ++separators;
      if (i + 1 < text.size() && text[i + 1] == ' ') ++spaced, ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      return false;
    }
  }
  return spaced == 0 || spaced == separators;
}

// Tensors must cover the data exactly: a hole could hide data, an overlap gives one byte two meanings.
void require_tiling(const std::string& path, const SafetensorsHeader& header, std::uint64_t file_bytes) {
  std::vector<const TensorPlace*> places;
  for (const auto& [name, place] : header.tensors) places.push_back(&place);
  std::sort(places.begin(), places.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::uint64_t at = header.data_begin;
  for (const TensorPlace* place : places) {
    if (place->begin < at) throw file_error(path, 0, "two tensors overlap", kAdvice);
    if (place->begin > at) throw file_error(path, 0, "there is a hole between two tensors", kAdvice);
    at = place->end;
  }
  if (at != file_bytes)
    throw file_error(path, 0, fmt::format("{} bytes follow the last tensor", file_bytes - at), kAdvice);
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error || !std::filesystem::exists(status)) throw file_error(path, 0, "no such file", "check the path");
  if (!std::filesystem::is_regular_file(status))
    throw file_error(path, 0, "this is not a regular file", "give the path of a model file");
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) throw file_error(path, 0, "it cannot be read", "check its permissions");
  std::uint64_t length = 0;
  if (file_bytes < 8 || !in.read(reinterpret_cast<char*>(&length), 8))
    throw file_error(path, 0, fmt::format("it has {} bytes, too few for a header", file_bytes), kAdvice);
  const std::string_view first(reinterpret_cast<const char*>(&length), sizeof length);
  if (first == "TMXCHKPT")
    throw file_error(path, 0, "this is a checkpoint, not a model",
                     "go on with it: truemax train DATA --checkpoint FILE --resume");
  if (first == kCacheMagic)
    throw file_error(path, 0, "this is a cache of rows, not a model",
                     "give a model file first, then the cache");
  if (first == "TMXINDEX")
    throw file_error(path, 0, "this is an index of a model, not a model",
                     "give the model file first, then --index and this file");
  if (file_bytes > 8 && in.peek() != '{')
    throw file_error(path, 0, "this is not a model: it does not begin as a safetensors file does",
                     "give the model file that 'truemax train' wrote");
  in.clear();
  if (length < 2 || length > file_bytes - 8)
    throw file_error(
        path, 0, fmt::format("its header length is {} in a file of {} bytes", length, file_bytes), kAdvice);
  if (length > kMostHeaderBytes)
    throw file_error(path, 0,
                     fmt::format("its header of {} is longer than {}, the most that is read",
                                 size_text(length), size_text(kMostHeaderBytes)),
                     kAdvice);
  if (length > available_memory() / kParsedTimes)
    throw file_error(path, 0, fmt::format("its header of {} does not fit into memory", size_text(length)),
                     kAdvice);
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length)))
    throw file_error(path, 0, "its header is cut off", kAdvice);
  bool twice = false;
  nlohmann::json json = parse_json_once(text, &twice);
  if (json.is_discarded() || !json.is_object())
    throw file_error(path, 0, "its header is not a JSON object", kAdvice);
  if (twice) throw file_error(path, 0, "its header names a key twice", kAdvice);

  SafetensorsHeader header;
  header.data_begin = 8 + length;
  header.regular = is_regular_json(text);
  text = std::string();  // as long as the metadata, which may name millions of classes
  for (auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) throw file_error(path, 0, "its __metadata__ is not an object", kAdvice);
      for (auto& [key, value] : entry.items()) {
        if (!value.is_string())
          throw file_error(path, 0, "its __metadata__ has a value that is not a string", kAdvice);
        header.metadata[key] = std::move(value.get_ref<std::string&>());
      }
    } else {
      header.tensors[name] = read_place(path, name, entry, header.data_begin, file_bytes - header.data_begin);
    }
  }
  require_tiling(path, header, file_bytes);
  return header;
}

std::string make_safetensors_header(const std::vector<NewTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::string bytes(8, '\0');
  std::size_t room = 1 << 12;  // with quotes escaped
  for (const auto& [key, value] : metadata)
    room += value.size() + static_cast<std::size_t>(std::count(value.begin(), value.end(), '"'));
  bytes.reserve(room);
  bytes += R"({"__metadata__":{)";
  for (const auto& [key, value] : metadata) {
    if (bytes.back() != '{') bytes += ',';
    JsonText::append_string(bytes, key);
    bytes += ':';
    JsonText::append_string(bytes, value);
  }
  bytes += '}';
  std::uint64_t at = 0;
  for (const NewTensor& tensor : tensors) {
    std::uint64_t size = sizeof(float);
    for (const std::uint64_t extent : tensor.shape) size *= extent;
    const nlohmann::ordered_json place{
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, at + size}}};
    bytes += ',';
    JsonText::append_string(bytes, tensor.name);
    bytes += ':' + place.dump();
    at += size;
  }
  bytes += '}';
  bytes.resize((bytes.size() + 7) / 8 * 8, ' ');  // tensors start on a multiple of 8 bytes
  const std::uint64_t length = bytes.size() - 8;
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

}  // namespace truemax

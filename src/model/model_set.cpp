#include "model/model_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "model/metadata.hpp"
#include "model/tensor_rows.hpp"

namespace truemax {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".index.json";
constexpr const char* kAllFiles = "copy all files of the set into one folder, or train again";

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Takes so many digits, or at least one if `count` is 0.
bool take_digits(std::string_view& text, std::size_t count) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || (count > 0 && digits != count)) return false;
  text.remove_prefix(digits);
  return true;
}
bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// Whether a file of this name is a part of a set of the model.
bool is_part_of(const std::string& model, std::string_view name) {
  const fs::path path(model);
  if (!take(name, path.stem().string() + "-") || !take_digits(name, 5) || !take(name, "-of-") ||
      !take_digits(name, 5))
    return false;
  if (take(name, "-") && !take_digits(name, 0)) return false;
  return name == path.extension().string();
}

std::string read_index(const std::string& path) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) throw file_error(path, 0, "it cannot be read", "check the path and its permissions");
  if (bytes > kMostHeaderBytes)
    throw file_error(path, 0, fmt::format("an index of {} is too long", size_text(bytes)), kAllFiles);
  std::string text(bytes, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes)))
    throw file_error(path, 0, "it is cut off", kAllFiles);
  return text;
}

std::vector<SetPart> parts_of(const std::string& index, const nlohmann::json& metadata) {
  using Type = nlohmann::json::value_t;
  std::vector<SetPart> parts;
  for (const auto& entry : field(index, metadata, "parts", Type::array)) {
    if (!entry.is_object()) throw file_error(index, 0, "its metadata has no valid 'parts'", kNotOurs);
    SetPart& part = parts.emplace_back();
    part.file = field(index, entry, "file", Type::string).get<std::string>();
    part.classes = field(index, entry, "classes", Type::number_unsigned).get<std::uint64_t>();
    part.checksum = field(index, entry, "checksum", Type::string).get<std::string>();
    if (part.file.empty() || part.file == ".." || part.file.find('/') != std::string::npos)
      throw file_error(index, 0, fmt::format("its part {} is not the name of a file", in_quotes(part.file)),
                       kNotOurs);
  }
  if (parts.empty()) throw file_error(index, 0, "it names no parts", kNotOurs);
  return parts;
}

}  // namespace

std::string index_name(const std::string& model) {
  return model + std::string(kIndexEnding);
}

std::string index_of_set(const std::string& path) {
  if (path.ends_with(kIndexEnding)) return path;
  return !is_file(path) && is_file(index_name(path)) ? index_name(path) : "";
}

std::string part_name(const std::string& model, std::size_t part, std::size_t parts, std::size_t edition) {
  const fs::path path(model);
  const std::string ending = edition > 1 ? fmt::format("-{}", edition) : "";
  return (path.parent_path() / fmt::format("{}-{:05}-of-{:05}{}{}", path.stem().string(), part, parts, ending,
                                           path.extension().string()))
      .string();
}

std::size_t free_edition(const std::string& model, std::size_t parts) {
  for (std::size_t edition = 1;; ++edition) {
    bool free = true;
    for (std::size_t part = 1; part <= parts && free; ++part)
      free = !is_file(part_name(model, part, parts, edition));
    if (free) return edition;
  }
}

std::string tensor_ending(std::size_t part) {
  return fmt::format(".{:05}", part);
}

std::string index_text(nlohmann::json metadata, const std::vector<SetPart>& parts, std::uint64_t total_size,
                       bool intercept, const std::vector<std::string>& tables) {
  nlohmann::json& list = metadata["parts"] = nlohmann::json::array();
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SetPart& part = parts[i];
    list.push_back({{"file", part.file}, {"classes", part.classes}, {"checksum", part.checksum}});
    map["weight" + tensor_ending(i + 1)] = part.file;
    if (intercept) map["intercept" + tensor_ending(i + 1)] = part.file;
    if (i == 0)
      for (const std::string& table : tables) map[table] = part.file;
  }
  const std::string text = metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const nlohmann::ordered_json index{
      {"metadata",
       {{"total_size", total_size}, {"truemax", text}, {kMetadataChecksum, checksum_text(xxh64(text))}}},
      {"weight_map", std::move(map)}};
  return index.dump() + "\n";
}

void read_set(const std::string& index, CheckedHeader& h) {
  using Type = nlohmann::json::value_t;
  const std::string text = read_index(index);
  bool twice = false;
  const nlohmann::json json = parse_json_once(text, &twice);
  if (json.is_discarded() || !json.is_object() || twice)
    throw file_error(index, 0, "it is not the index of a model", kNotOurs);
  const auto& outside = field(index, json, "metadata", Type::object);
  const auto& inside = field(index, outside, "truemax", Type::string).get_ref<const std::string&>();
  if (parse_checksum(field(index, outside, kMetadataChecksum, Type::string).get<std::string>()) !=
      xxh64(inside))
    throw damaged(index, "the metadata");
  LongLists none;
  h.metadata = parse_metadata(index, inside, none);
  const std::vector<SetPart> parts = parts_of(index, h.metadata);
  std::uint64_t total_size = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ModelPart& part = h.parts.emplace_back();
    part.path = (fs::path(index).parent_path() / parts[i].file).string();
    part.ending = tensor_ending(i + 1);
    part.first = h.classes;
    if (!is_file(part.path))
      throw file_error(index, 0,
                       fmt::format("{}, part {} of {}, is missing", parts[i].file, i + 1, parts.size()),
                       kAllFiles);
    part.file = read_safetensors_header(part.path);
    const std::string& own = metadata_text(part.path, part.file);
    LongLists lists;
    const nlohmann::json metadata = parse_metadata(part.path, own, lists);
    if (checksum_text(xxh64(own)) != parts[i].checksum)
      throw file_error(part.path, 0,
                       fmt::format("this is not the part that {} names: it is of another model, or damaged",
                                   fs::path(index).filename().string()),
                       kAllFiles);
    take_classes(part.path, metadata, std::move(lists), h);
    read_shapes(part, i == 0, h);
    part.checksums = read_checksums(part.path, part, metadata);
    if (part.rows != parts[i].classes || h.counts.size() != h.names.size())
      throw file_error(part.path, 0,
                       fmt::format("it has {} rows for {} classes", part.rows, parts[i].classes), kNotOurs);
    h.classes += part.rows;
    for (const auto& [name, place] : part.file.tensors) total_size += place.end - place.begin;
    part.file.metadata.clear();  // it may name millions of classes
  }
  std::vector<std::string> tables;
  if (h.embedding) tables.emplace_back("embedding");
  if (h.context_rows > 0) tables.emplace_back("context");
  // Whatever else it says must be what these files are.
  if (text != index_text(h.metadata, parts, total_size, h.intercept, tables))
    throw damaged(index, "the index");
}

void remove_parts(const std::string& model, const std::vector<SetPart>& keep) {
  const fs::path folder = fs::path(model).parent_path();
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? fs::path(".") : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_part_of(model, name) &&
        std::none_of(keep.begin(), keep.end(), [&](const SetPart& part) { return part.file == name; }))
      old.push_back(entry.path());
  }
  for (const fs::path& file : old) fs::remove(file, error);  // a file that stays harms nobody
}

}  // namespace truemax

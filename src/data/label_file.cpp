// Finds the label file of a features file by its name.
#include <cctype>
#include <string_view>
#include <utility>

#include "data/sources.hpp"

namespace truemax {
namespace {

struct Rename {
  std::string_view from, to;
  bool whole_word;  // a single letter must stand alone: not the x of "max"
};

constexpr Rename kRenames[] = {
    {"images", "labels", false},
    {"Images", "Labels", false},
    {"image", "label", false},
    {"features", "labels", false},
    {"features", "target", false},
    {"features", "targets", false},
    {"data", "labels", false},
    {"data", "target", false},
    {"data", "targets", false},
    {"data", "label", false},
    {"X", "y", true},
    {"X", "Y", true},
    {"x", "y", true},
};

bool is_word_letter(const std::string& text, std::size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

bool stands_alone(const std::string& text, std::size_t at, std::size_t length) {
  return !(at > 0 && is_word_letter(text, at - 1)) && !is_word_letter(text, at + length);
}

// images-idx3 becomes labels-idx1: labels have one dimension.
std::string with_one_dimension(std::string name) {
  const std::size_t at = name.rfind("idx");
  if (at != std::string::npos && at + 3 < name.size() && name[at + 3] >= '2' && name[at + 3] <= '9')
    name[at + 3] = '1';
  return name;
}

// The file itself, or its compressed or uncompressed form.
std::string existing(const std::string& path) {
  if (file_exists(path)) return path;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.size() > ending.size() && path.substr(path.size() - ending.size()) == ending) {
      std::string bare = path.substr(0, path.size() - ending.size());
      if (file_exists(bare)) return bare;
    }
    std::string packed = path + std::string(ending);
    if (file_exists(packed)) return packed;
  }
  return "";
}

}  // namespace

std::string find_label_file(const std::string& features) {
  const std::size_t slash = features.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : features.substr(0, slash + 1);
  const std::string name = features.substr(folder.size());
  for (const Rename& rename : kRenames) {
    for (std::size_t at = name.rfind(rename.from); at != std::string::npos;
         at = at == 0 ? std::string::npos : name.rfind(rename.from, at - 1)) {
      if (rename.whole_word && !stands_alone(name, at, rename.from.size())) continue;
      std::string labels = name;
      labels.replace(at, rename.from.size(), rename.to);
      for (const std::string& candidate : {with_one_dimension(labels), labels})
        if (std::string found = existing(folder + candidate); !found.empty()) return found;
    }
  }
  return "";
}

}  // namespace truemax

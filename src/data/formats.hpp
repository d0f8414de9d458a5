// The table of data formats. A new format is one entry: how it is recognised and how it is opened.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/input.hpp"
#include "data/options.hpp"
#include "data/row_stream.hpp"
#include "data/sniff.hpp"

namespace truemax {

// What is needed to open a source, apart from its file.
struct OpenRequest {
  const std::string& path;
  Format format;
  const StreamOptions& stream;
  std::vector<std::string>& notes;
  // Returns the path of the labels, empty for rows without labels; called once the features are known to be
  // good.
  const std::function<std::string()>& find_labels;
};

struct FormatInfo {
  Format format;
  const char* name;
  const char* description;  // one line
  bool is_text;             // rows contain their labels
  bool can_be_generated;    // by truemax generate
  // Whether a file with this head has this format; asked in table order, the first match wins.
  bool (*recognises)(const FileHead& head);
  std::unique_ptr<RowSource> (*open)(Input input, const OpenRequest& request);
};

std::span<const FormatInfo> formats();
const FormatInfo& find_format(Format format);  // not Format::automatic

}  // namespace truemax

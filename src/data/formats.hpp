// The table of data formats: a new format is a line here, with how it is recognised and how it is opened.
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

// What a source is opened with, beside its file.
struct OpenRequest {
  Format format;
  const StreamOptions& stream;
  std::vector<std::string>& notes;
  // The path of the labels, empty for rows without; called once the features are known to be good.
  const std::function<std::string()>& find_labels;
};

struct FormatInfo {
  Format format;
  const char* name;
  const char* description;  // one line
  bool is_text;             // rows hold their labels themselves; can be written by generate
  // Whether a file that begins so has this format; asked in the order of the table, the first yes counts.
  bool (*recognises)(const FileHead& head);
  std::unique_ptr<RowSource> (*open)(Input input, const OpenRequest& request);
};

std::span<const FormatInfo> formats();
const FormatInfo& find_format(Format format);  // not Format::automatic

}  // namespace truemax

#include "data/row_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/sniff.hpp"
#include "data/sources.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kAll = ~0ULL;

class RowsAtHand : public RowSource {
 public:
  explicit RowsAtHand(RawRows rows) : rows_(std::move(rows)) {}

  void read(RawRows& batch, std::uint64_t most) override {
    if (used_ == 0 && most >= rows_.size()) {
      batch = std::exchange(rows_, RawRows());  // all at once: nothing to copy
      return;
    }
    std::vector<std::uint64_t> chosen(std::min<std::uint64_t>(most, rows_.size() - used_));
    std::iota(chosen.begin(), chosen.end(), used_);
    used_ += chosen.size();
    batch = gather_rows(rows_, chosen);
  }

 private:
  RawRows rows_;
  std::uint64_t used_ = 0;
};

struct Paths {
  std::string features, labels;
};

// "FEATURES,LABELS" is two files where no file has that whole name.
Paths split_at_comma(const std::string& path) {
  if (path.find(',') == std::string::npos || file_exists(path)) return {path, ""};
  for (std::size_t comma = path.find(','); comma != std::string::npos; comma = path.find(',', comma + 1)) {
    Paths paths{path.substr(0, comma), path.substr(comma + 1)};
    if (file_exists(paths.features) && file_exists(paths.labels)) return paths;
  }
  return {path.substr(0, path.find(',')), path.substr(path.find(',') + 1)};
}

Sniffed sniff(Input& input, Format expected) {
  std::string head(kSniffBytes, '\0');
  head.resize(input.read(head.data(), head.size()));
  input.unread(head);
  return sniff_format(input.name(), head, expected);
}

std::string choose_label_file(const Paths& paths, const ReadOptions& options, bool required) {
  if (options.label_file == kStandardInput && paths.features == kStandardInput)
    throw UserError("features and labels cannot both come from standard input; name a file by --label-file");
  if (!options.label_file.empty()) return options.label_file;
  if (!paths.labels.empty()) return paths.labels;
  if (!required) return "";  // what lies beside the features may belong to others
  const bool has_neighbours = paths.features != kStandardInput;
  std::string found = has_neighbours ? find_label_file(paths.features) : "";
  if (found.empty())
    throw file_error(shown_path(paths.features), 0,
                     has_neighbours ? "found no label file beside it" : "rows without labels",
                     "name the labels by --label-file");
  return found;
}

}  // namespace

std::unique_ptr<RowSource> give_out(RawRows rows) {
  return std::make_unique<RowsAtHand>(std::move(rows));
}

RowStream::RowStream(const std::string& path, const ReadOptions& options, const StreamOptions& stream,
                     std::vector<std::string>& notes) {
  const Paths paths = split_at_comma(path);
  Input input(paths.features);
  files_ = {paths.features};
  name_ = input.name();
  format_ = options.format;
  if (format_ == Format::automatic) {
    const Sniffed sniffed = sniff(input, options.expected);
    format_ = sniffed.format;
    if (sniffed.may_be_lshtc)
      notes.push_back(fmt::format("{}: read as libsvm; if it is LSHTC text, add --format lshtc", name_));
  }
  if (format_ == Format::idx || format_ == Format::npy) {
    source_ = open_dense(std::move(input), format_, [&] {
      files_.push_back(choose_label_file(paths, options, stream.labels_required));
      return files_.back();
    });
  } else {
    if (!options.label_file.empty() || !paths.labels.empty())
      throw file_error(name_, 0,
                       fmt::format("is {} text, which holds its labels itself", format_name(format_)),
                       "leave out --label-file (it is for idx and npy features)");
    source_ = open_text(std::move(input), format_, stream, notes);
  }
  if (!options.row_weights.empty()) {
    weights_ = read_row_weights(options.row_weights);
    files_.push_back(options.row_weights);
  }
  if (!options.split.empty()) {
    RawRows all;
    source_->read(all, kAll);
    if (weights_) {
      weights_->require_rows(all.size(), name_, false);
      all.weight = std::move(weights_->value);
      weights_.reset();
    }
    const auto chosen = read_split(options.split, options.split_column, all.size());
    source_ = give_out(gather_rows(all, chosen));
    files_.push_back(options.split);
  }
}

RowStream::~RowStream() = default;
RowStream::RowStream(RowStream&&) noexcept = default;
RowStream& RowStream::operator=(RowStream&&) noexcept = default;

RawRows RowStream::next(std::uint64_t most) {
  RawRows batch;
  source_->read(batch, most);
  batch.path = name_;
  batch.files = files_;
  batch.format = format_;
  batch.first_row = rows_given_;
  rows_given_ += batch.size();
  if (weights_) {
    weights_->require_rows(rows_given_, name_, batch.size() == most);
    batch.weight.assign(weights_->value.begin() + static_cast<std::ptrdiff_t>(batch.first_row),
                        weights_->value.begin() + static_cast<std::ptrdiff_t>(rows_given_));
  }
  return batch;
}

}  // namespace truemax

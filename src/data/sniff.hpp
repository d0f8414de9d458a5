// Detects the format of a file from its first bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/options.hpp"

namespace truemax {

inline constexpr std::string_view kLabelPrefix = "__label__";
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
// Bytes of a file that are examined.
inline constexpr std::size_t kSniffBytes = 256 << 10;

struct Sniffed {
  Format format = Format::automatic;
  bool may_be_lshtc = false;  // libsvm was assumed, but every line examined could also be LSHTC
};

bool looks_like_idx(std::string_view head);
bool looks_like_npy(std::string_view head);

// The advice for a table: how to convert it to a format that can be read. Nothing if the text is not a table
// with commas, semicolons or tabs.
std::optional<UserError> table_error(const std::string& name, std::string_view text);

struct Evidence;

// The first bytes of a file, with the tests by which formats recognise it.
class FileHead {
 public:
  // `bytes`: all of the file if it is short. `expected`: as below.
  FileHead(const std::string& name, std::string_view bytes, Format expected);
  ~FileHead();
  FileHead(const FileHead&) = delete;
  FileHead& operator=(const FileHead&) = delete;

  static bool is_cache(const FileHead& head);
  static bool is_npy(const FileHead& head);
  static bool is_idx(const FileHead& head);
  static bool is_xmlrepository(const FileHead& head);
  static bool is_fasttext(const FileHead& head);
  static bool is_never(const FileHead& /*head*/) { return false; }  // only if asked for
  static bool is_lshtc(const FileHead& head);
  static bool is_libsvm(const FileHead& head);
  static bool is_triples(const FileHead& head);  // only for a model of triples

  bool may_be_lshtc() const;  // for a file taken for libsvm
  UserError no_known_format() const;

 private:
  bool only_rows() const;  // several rows, of numbers only
  bool has_rows() const;   // certainly rows of features

  std::string name_;
  std::string_view bytes_, text_;
  Format expected_;
  bool binary_, header_ = false, label_prefix_ = false;
  std::unique_ptr<Evidence> evidence_;  // of text
};

// `head`: the first bytes of the file, all of it if it is short. Throws UserError if no format fits.
// `expected` is the format of the model's training data, or automatic; it decides if several formats fit:
// rows without a header are read in the model's format, words as words. For a model of words any text is
// text, unless it consists of rows of numbers.
Sniffed sniff_format(const std::string& name, std::string_view head, Format expected = Format::automatic);

// The first line of an XMLRepository file: rows, features, labels.
struct XmlHeader {
  std::uint64_t rows = 0, features = 0, labels = 0;
};
// Nullopt unless the line is three whole numbers.
std::optional<XmlHeader> parse_xml_header(std::string_view line);

}  // namespace truemax

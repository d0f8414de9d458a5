// Which format a file has, told by its first bytes.
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
// So much of a file is looked at.
inline constexpr std::size_t kSniffBytes = 256 << 10;

struct Sniffed {
  Format format = Format::automatic;
  bool may_be_lshtc = false;  // libsvm was assumed, but every line looked at could be LSHTC as well
};

bool looks_like_idx(std::string_view head);
bool looks_like_npy(std::string_view head);

// What to say of a table: how to make a file of it that can be read. Nothing where the text is no table of
// columns between commas, semicolons or tabs.
std::optional<UserError> table_error(const std::string& name, std::string_view text);

struct Evidence;

// The first bytes of a file, and what can be asked of them. A format recognises its own.
class FileHead {
 public:
  // `bytes`: all of the file where it is short. `expected`: as below.
  FileHead(const std::string& name, std::string_view bytes, Format expected);
  ~FileHead();
  FileHead(const FileHead&) = delete;
  FileHead& operator=(const FileHead&) = delete;

  static bool is_npy(const FileHead& head);
  static bool is_idx(const FileHead& head);
  static bool is_xmlrepository(const FileHead& head);
  static bool is_fasttext(const FileHead& head);
  static bool is_lshtc(const FileHead& head);
  static bool is_libsvm(const FileHead& head);

  bool may_be_lshtc() const;  // of a file that was taken for libsvm
  UserError no_known_format() const;

 private:
  bool only_rows() const;  // rows of numbers alone, several of them
  bool has_rows() const;   // rows of features, without doubt

  std::string name_;
  std::string_view bytes_, text_;
  Format expected_;
  bool binary_, header_ = false, label_prefix_ = false;
  std::unique_ptr<Evidence> evidence_;  // of text
};

// `head`: the first bytes of the file, all of it where it is short. Throws UserError where no format fits.
// `expected` is the format of the data of the model that the file is for, or automatic; it decides where
// several would do: rows without a header are then read as those of the model, words as words. Text for a
// model of words is text, unless all of it is rows of numbers.
Sniffed sniff_format(const std::string& name, std::string_view head, Format expected = Format::automatic);

// The first line of an XMLRepository file: rows, features, labels.
struct XmlHeader {
  std::uint64_t rows = 0, features = 0, labels = 0;
};
// Nothing where the line is not three whole numbers.
std::optional<XmlHeader> parse_xml_header(std::string_view line);

}  // namespace truemax

// Shared by the tests of this folder: temporary files, compressed files, error messages.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/row_stream.hpp"

namespace truemax {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "truemax_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string gzip(std::string_view bytes) {
  std::string out(bytes.size() + bytes.size() / 100 + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
  std::string in(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

// The message of the UserError that `action` throws; fails the test if it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no UserError";
  return "";
}

inline RawRows read_all(const std::string& path, const ReadOptions& options = {}, StreamOptions stream = {},
                        std::uint64_t most = ~0ULL) {
  std::vector<std::string> notes;
  return RowStream(path, options, stream, notes).next(most);
}

inline ReadOptions as(Format format) {
  ReadOptions options;
  options.format = format;
  return options;
}

// Rows as text, one line each: "label,label|feature:value feature:value".
inline std::string shown(const RawRows& raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    for (std::uint64_t j = raw.label_begin[i]; j < raw.label_begin[i + 1]; ++j)
      out += (j > raw.label_begin[i] ? "," : "") + raw.label_names[raw.label[j]];
    out += '|';
    const RowView row = raw.rows.row(i);
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      char text[64];
      std::snprintf(text, sizeof text, "%s%u:%.9g", j > 0 ? " " : "", row.index[j],
                    static_cast<double>(row.value[j]));
      out += text;
    }
    out += '\n';
  }
  return out;
}

inline void expect_same(const RawRows& a, const RawRows& b) {
  EXPECT_EQ(a.rows.begin, b.rows.begin);
  EXPECT_EQ(a.rows.index, b.rows.index);
  EXPECT_EQ(a.rows.value, b.rows.value);
  EXPECT_EQ(a.label_begin, b.label_begin);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.label_names, b.label_names);
  EXPECT_EQ(a.words, b.words);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.declared, b.declared);
  EXPECT_EQ(a.format, b.format);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ASSERT_EQ(a.line_of(i), b.line_of(i)) << i;
}

}  // namespace truemax

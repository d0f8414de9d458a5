#include "data/input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/test_support.hpp"
#include "data/text_lines.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

std::string read_in_steps(const std::string& path, std::size_t step) {
  Input input(path);
  std::string all, part(step, '\0');
  while (const std::size_t got = input.read(part.data(), step)) all.append(part, 0, got);
  return all;
}

std::string some_text(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i * i) + (i % 7 == 0 ? "\n" : " ");
  return text;
}

TEST(Input, DetectsCompressionByMagicBytes) {
  const TempFolder folder;
  const std::string text = some_text(3'000'000);
  for (const std::size_t step : {std::size_t{1000}, std::size_t{1} << 20}) {
    EXPECT_EQ(read_in_steps(folder.write("plain.gz", text), step), text);
    EXPECT_EQ(read_in_steps(folder.write("gzip", gzip(text)), step), text);
    EXPECT_EQ(read_in_steps(folder.write("zstd", zstd(text)), step), text);
  }
}

TEST(Input, ReadsConcatenatedGzipAndZstd) {
  const TempFolder folder;
  const std::string skippable(
      "\x50\x2a\x4d\x18\x03\x00\x00\x00"
      "abc",
      11);
  EXPECT_EQ(read_in_steps(folder.write("g", gzip("one\n") + gzip("two\n") + gzip("")), 3), "one\ntwo\n");
  EXPECT_EQ(read_in_steps(folder.write("z", skippable + zstd("one\n") + zstd("two\n")), 3), "one\ntwo\n");
  EXPECT_EQ(read_in_steps(folder.write("padded", gzip("one\n") + std::string(512, '\0')), 3), "one\n");
}

TEST(Input, ReadsTheLargestZstdWindow) {
  const TempFolder folder;
  // A frame as zstd --long=31 writes it: magic, no content size, window 2^31, one last raw block of 4 bytes.
  const std::string frame("\x28\xb5\x2f\xfd\x00\xa8\x21\x00\x00one\n", 13);
  EXPECT_EQ(read_in_steps(folder.write("z", frame), 3), "one\n");
}

TEST(Input, DetectsTruncationAtEveryLength) {
  const TempFolder folder;
  const std::string text = some_text(2000);
  for (const auto& [packed, word] : {std::pair{gzip(text), "gzip"}, std::pair{zstd(text), "zstd"}}) {
    for (std::size_t size = 5; size < packed.size(); size += size < 40 ? 1 : 37) {
      const std::string path = folder.write("t", std::string_view(packed).substr(0, size));
      const std::string message = error_of([&] { read_in_steps(path, 100); });
      EXPECT_THAT(message, HasSubstr(std::string("ends in the middle of its ") + word)) << size;
      EXPECT_THAT(message, HasSubstr("copy or download the file again"));
    }
  }
}

TEST(Input, DetectsCorruption) {
  const TempFolder folder;
  std::string packed = gzip(some_text(100000));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // the checksum
  EXPECT_THAT(error_of([&] { read_in_steps(folder.write("g", packed), 1000); }),
              HasSubstr("corrupt gzip data"));
  EXPECT_THAT(error_of([&] { read_in_steps(folder.write("g2", gzip("a\n") + "rubbish"), 1000); }),
              HasSubstr("corrupt gzip data"));
  EXPECT_THAT(error_of([&] { read_in_steps(folder.write("z", zstd("a\n") + "rubbish"), 1000); }),
              HasSubstr("corrupt zstd data"));
}

TEST(Input, SaysWhyAFileCannotBeRead) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { Input(folder.path("none")); }),
            folder.path("none") + ": no such file; check the path");
  EXPECT_EQ(error_of([&] { Input(folder.path("")); }),
            folder.path("") + ": is a directory; name a file in it");
  EXPECT_EQ(error_of([&] { Input(folder.write("empty", "")); }),
            folder.path("empty") + ": is empty; name a file with data");
  EXPECT_THAT(error_of([&] { Input(folder.write("empty.gz", gzip(""))); }), HasSubstr("is empty"));
  if (::geteuid() != 0) {
    ::chmod(folder.write("shut", "x").c_str(), 0);
    EXPECT_THAT(error_of([&] { Input(folder.path("shut")); }), HasSubstr("no permission"));
  }
}

TEST(Input, ReturnsBytesThatWerePutBack) {
  const TempFolder folder;
  Input input(folder.write("f", "abcdef"));
  char part[4];
  ASSERT_EQ(input.read(part, 4), 4U);
  input.unread({part, 4});
  input.unread("xy");
  std::string all(20, '\0');
  all.resize(input.read(all.data(), all.size()));
  EXPECT_EQ(all, "xyabcdef");
}

TEST(LineWindows, ContainWholeLinesForEveryWindowSize) {
  const TempFolder folder;
  const std::string text = "a\n\nbcd\n" + std::string(50, 'x') + "\nlast line without end";
  const std::string path = folder.write("f", text);
  for (std::size_t window = 1; window < 100; ++window) {
    Input input(path);
    LineWindows windows(input, window);
    Scratch<char> buffer;
    std::string all;
    for (auto part = windows.read(buffer); !part.empty(); part = windows.read(buffer)) {
      EXPECT_EQ(part.back(), '\n');
      all += part;
    }
    EXPECT_EQ(all, text + "\n") << window;
  }
}

}  // namespace
}  // namespace truemax

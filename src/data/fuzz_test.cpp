// Files with random byte changes: each is read or refused with a UserError, the same for every window size,
// and the rows read satisfy the invariants of RawRows.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "data/test_support.hpp"

namespace truemax {
namespace {

void expect_promises(const RawRows& raw) {
  ASSERT_EQ(raw.rows.begin.size(), raw.label_begin.size());
  ASSERT_EQ(raw.rows.begin.back(), raw.rows.index.size());
  ASSERT_EQ(raw.label_begin.back(), raw.label.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RowView row = raw.rows.row(i);
    if (raw.format == Format::triples) {
      ASSERT_EQ(row.index.size(), 2U);
      ASSERT_LT(row.index[0], raw.label_names.size());
      ASSERT_LT(row.index[1], raw.words.size());
      continue;
    }
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      ASSERT_TRUE(j == 0 || row.index[j - 1] < row.index[j]);
      ASSERT_LT(row.index[j], raw.features);
      ASSERT_TRUE(std::isfinite(row.value[j]) && row.value[j] != 0.0F);
    }
  }
  for (const std::uint32_t label : raw.label) ASSERT_LT(label, raw.label_names.size());
}

// The rows, or the error message.
std::string outcome(const std::string& path, std::size_t window, Format format) {
  StreamOptions stream;
  stream.window = window;
  stream.piece = window;
  stream.labels_required = false;
  try {
    const RawRows raw = read_all(path, as(format), stream);
    expect_promises(raw);
    return shown(raw);
  } catch (const UserError& error) {
    return error.what();
  }
}

void read_mutations(const std::string& good, int count, std::string_view alphabet,
                    Format format = Format::automatic) {
  const TempFolder folder;
  std::mt19937 random(static_cast<unsigned>(good.size()));
  for (int i = 0; i < count; ++i) {
    std::string bytes = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      const char c = random() % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0:
          bytes.insert(at, 1, c);
          break;
        case 1:
          bytes.erase(at, 1 + random() % 3);
          break;
        case 2:
          bytes.resize(at + 1);
          break;
        default:
          bytes[at] = c;
      }
      if (bytes.empty()) bytes = "x";
    }
    const std::string path = folder.write("f", bytes);
    ASSERT_EQ(outcome(path, 5, format), outcome(path, 1 << 16, format)) << bytes;
  }
}

constexpr std::string_view kTextBytes = " \t\n\r,:#+-.e0123456789__label__qid";

TEST(Fuzz, XmlRepository) {
  read_mutations("3 10 5\n1,2 0:1 3:0.5\n 4:1e3\n0 9:-2.5\n", 3000, kTextBytes);
}

TEST(Fuzz, Lshtc) {
  read_mutations("33, 20 0:1 5:0.5\n7 4:1e3\n", 3000, kTextBytes);
}

TEST(Fuzz, Libsvm) {
  read_mutations("# head\n+1 qid:3 1:1 5:0.5 # c\nx,-1.0 4:1e3\n", 3000, kTextBytes);
}

TEST(Fuzz, Fasttext) {
  read_mutations("__label__a the cat\n\nthe __label__b dog __label__a\n", 3000, kTextBytes);
}

TEST(Fuzz, Triples) {
  read_mutations("a b\tlies in\tc\n\nc\tr\ta b\r\na\tr\ta\n", 3000, kTextBytes, Format::triples);
}

TEST(Fuzz, Packed) {
  read_mutations(gzip("3, 2 5:1\n4 1:1\n"), 1000, kTextBytes);
  read_mutations(zstd("3, 2 5:1\n4 1:1\n"), 1000, kTextBytes);
}

TEST(Fuzz, Idx) {
  const std::string header("\0\0\x0d\x02\0\0\0\x02\0\0\0\x02", 12);
  read_mutations(header + std::string("\x3f\x80\0\0\0\0\0\0\0\0\0\0\x40\0\0\0", 16), 3000,
                 std::string_view("\0\1\2\x08\x0d\x7f\xff", 7));
}

TEST(Fuzz, Npy) {
  const std::string text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }\n";
  const std::string header = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(text.size()) + '\0';
  read_mutations(header + text + std::string("\1\0\0\0\0\0\2\0", 8), 3000,
                 "<>|iufbSU0123456789(), 'TrueFalse");
}

}  // namespace
}  // namespace truemax

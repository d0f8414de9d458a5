#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "data/sources.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

template <class T>
std::string bytes_of(T item, bool big) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &item, sizeof(T));
  if (big == (std::endian::native == std::endian::little)) std::reverse(bytes, bytes + sizeof(T));
  return {bytes, sizeof(T)};
}

std::string idx_header(char type, const std::vector<std::uint32_t>& shape) {
  std::string out = {'\0', '\0', type, static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) out += bytes_of(size, true);
  return out;
}

std::string npy_header(const std::string& type, const std::string& shape, bool fortran = false,
                       char version = 1) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  text += std::string(64 - (text.size() + 13) % 64, ' ') + "\n";
  const auto length = static_cast<std::uint32_t>(text.size());
  const std::string size =
      version == 1 ? bytes_of(static_cast<std::uint16_t>(length), false) : bytes_of(length, false);
  return std::string("\x93NUMPY") + version + '\0' + size + text;
}

template <class T>
std::string npy(const std::string& type, const std::string& shape, const std::vector<T>& items,
                bool fortran = false, char version = 1) {
  std::string out = npy_header(type, shape, fortran, version);
  for (const T item : items) out += bytes_of(item, type[0] == '>');
  return out;
}

class Dense : public ::testing::Test {
 protected:
  Dense() { folder_.write("y.npy", npy<std::int64_t>("<i8", "(2,)", {7, -1})); }
  std::string read(const std::string& features) { return shown(read_all(folder_.write("X.npy", features))); }
  std::string error(const std::string& features) {
    const std::string message = error_of([&] { read(features); });
    return message.substr(std::min(message.size(), folder_.path("X.npy").size()));
  }
  std::string labels(const std::string& bytes) {
    folder_.write("y.npy", bytes);
    return read(npy<std::uint8_t>("|u1", "(2, 1)", {1, 1}));
  }
  std::string label_error(const std::string& bytes) {
    const std::string message = error_of([&] { labels(bytes); });
    return message.substr(std::min(message.size(), folder_.path("y.npy").size()));
  }
  TempFolder folder_;
};

TEST_F(Dense, NpyOfEveryNumberType) {
  const std::string expected = "7|0:1 2:2\n-1|1:3\n";
  const auto check = [&]<class T>(const std::string& type, T) {
    const std::vector<T> items{T(1), T(0), T(2), T(0), T(3), T(0)};
    for (const char* order : {"<", ">"})
      for (const char version : {'\1', '\2', '\3'})
        EXPECT_EQ(read(npy<T>(order + type, "(2, 3)", items, false, version)), expected) << type;
    EXPECT_EQ(read(npy<T>("<" + type, "(2, 3)", {T(1), T(0), T(0), T(3), T(2), T(0)}, true)), expected)
        << type;
  };
  check("u1", std::uint8_t{});
  check("i1", std::int8_t{});
  check("u2", std::uint16_t{});
  check("i2", std::int16_t{});
  check("u4", std::uint32_t{});
  check("i4", std::int32_t{});
  check("u8", std::uint64_t{});
  check("i8", std::int64_t{});
  check("f4", float{});
  check("f8", double{});
  EXPECT_EQ(read(npy<std::uint8_t>("|b1", "(2, 2)", {1, 0, 0, 1})), "7|0:1\n-1|1:1\n");
  EXPECT_EQ(read(npy<float>("<f4", "(2,)", {0.5F, 0.0F})), "7|0:0.5\n-1|\n");
  EXPECT_EQ(read(npy<float>("<f4", "(2,)", {0.5F, 0.0F}, true)), "7|0:0.5\n-1|\n");
}

TEST_F(Dense, StatesItsNumberOfFeatures) {
  const RawRows raw =
      read_all(folder_.write("X.npy", npy<std::uint8_t>("|u1", "(2, 3)", {1, 0, 0, 1, 0, 0})));
  EXPECT_EQ(raw.features, 3U);
  EXPECT_TRUE(raw.declared);
}

TEST_F(Dense, LabelsOfEveryKind) {
  const auto rows = [](const std::string& a, const std::string& b) { return a + "|0:1\n" + b + "|0:1\n"; };
  EXPECT_EQ(labels(npy<std::uint8_t>("|u1", "(2, 1)", {3, 0})), rows("3", "0"));
  EXPECT_EQ(labels(npy<double>(">f8", "(2,)", {-2, -0.0})), rows("-2", "0"));
  EXPECT_EQ(labels(npy<std::uint64_t>("<u8", "(2,)", {18446744073709551615ULL, 1})),
            rows("18446744073709551615", "1"));
  EXPECT_EQ(labels(npy_header("|S3", "(2,)") + std::string("ab\0xyz", 6)), rows("ab", "xyz"));
  for (const char* order : {"<", ">"}) {
    std::string text = npy_header(std::string(order) + "U2", "(2,)");
    for (const std::uint32_t c : {0x61U, 0xe9U, 0x20acU, 0U}) text += bytes_of(c, order[0] == '>');
    EXPECT_EQ(labels(text), rows("a\xc3\xa9", "\xe2\x82\xac"));
  }
  std::string emoji = npy_header("<U1", "(2,)");
  for (const std::uint32_t c : {0x1F600U, 0x100U}) emoji += bytes_of(c, false);
  EXPECT_EQ(labels(emoji), rows("\xf0\x9f\x98\x80", "\xc4\x80"));
}

TEST_F(Dense, RefusesBadLabels) {
  EXPECT_EQ(label_error(npy<double>("<f8", "(2,)", {1, 1.5})),
            ": row 2: label 1.5 is not a whole number; save labels as whole numbers or text");
  EXPECT_THAT(label_error(npy<double>("<f8", "(2,)", {std::numeric_limits<double>::quiet_NaN(), 1.5})),
              HasSubstr(": row 1: label nan is not a whole number"));
  EXPECT_THAT(label_error(npy<double>("<f8", "(1, 2)", {1, 1})), HasSubstr(": labels of shape (1, 2)"));
  EXPECT_THAT(label_error(npy<double>("<f8", "(2,)", {1})),
              HasSubstr(": ends after 1 of its 2 labels (truncated)"));
  EXPECT_THAT(label_error(npy<double>("<f8", "(2,)", {1, 2, 3})),
              HasSubstr(": has more data after its 2 labels"));
  EXPECT_THAT(label_error(npy_header("|S2", "(2,)") + std::string("a\0\0\0", 4)),
              HasSubstr(": row 2: empty label"));
  EXPECT_THAT(label_error(npy_header("|S2", "(2,)") + "a\x1b"
                                                      "b\n"),
              HasSubstr(": row 1: label 'a\\x1b' with a control character"));
  EXPECT_THAT(label_error("1\n2\n"), HasSubstr(": is neither idx nor npy"));
  EXPECT_EQ(error_of([&] {
              labels(npy<double>("<f8", "(3,)", {1, 2, 3}));
            }),
            folder_.path("X.npy") + ": has 2 rows, but " + folder_.path("y.npy") +
                " has 3 labels; give the matching labels with --label-file");
}

TEST_F(Dense, BadValuesAreReportedWithRowAndColumn) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error(npy<float>("<f4", "(2, 2)", {1, 0, 0, infinity})),
            ": row 2, column 2: value inf is not finite; save finite numbers");
  EXPECT_EQ(error(npy<double>("<f8", "(2, 2)", {1, 1e39, 0, 0})),
            ": row 1, column 2: value 1e+39 is too large for a 32-bit float; save finite numbers");
  EXPECT_EQ(error(npy<double>("<f8", "(2, 2)", {1, 1, 0, 1e39}, true)),
            ": row 2, column 2: value 1e+39 is too large for a 32-bit float; save finite numbers");
}

TEST_F(Dense, RefusesBadHeaders) {
  EXPECT_THAT(error(npy<float>("<f4", "(2, 2)", {1, 2, 3})),
              HasSubstr(": ends after 3 of the 4 numbers of its shape (2, 2) (truncated)"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, 2)", {1, 2, 3, 4, 5})),
              HasSubstr(": has more data after its 2 rows"));
  EXPECT_THAT(error(npy<float>("<f4", "()", {1})), HasSubstr(": a single number"));
  EXPECT_THAT(error(npy<float>("<f4", "(0, 5)", {1})), HasSubstr(": shape (0, 5) is empty"));
  EXPECT_THAT(error(npy<float>("<f2", "(2,)", {1})), HasSubstr("item type '<f2' is not a number"));
  EXPECT_THAT(error(npy<float>("<c8", "(2,)", {1})), HasSubstr("item type '<c8' is not a number"));
  EXPECT_THAT(error(npy<float>("O", "(2,)", {1})), HasSubstr("item type 'O' is not known"));
  EXPECT_THAT(error(npy_header("|S4", "(2,)") + "aaaabbbb"), HasSubstr(": contains text, not numbers"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, 1, 1)", {1, 1}, true)),
              HasSubstr("shape (2, 1, 1) has 3 dimensions"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, 1, 1)", {1, 1})), HasSubstr("save an array of shape (N, D)"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, x)", {1})), HasSubstr("is not whole numbers"));
  EXPECT_THAT(error(npy<float>("<f4", "(-2, 1)", {1})), HasSubstr("is not whole numbers"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, 1", {1})), HasSubstr("npy header: "));
  EXPECT_THAT(error("\x93NUMPY\x09"), HasSubstr("ends inside its npy header"));
  EXPECT_THAT(error(npy_header("<f4", "(2,)", false, '\4')), HasSubstr("version 4 is not known"));
  EXPECT_THAT(error(std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12)),
              HasSubstr("its length of 2147483647 bytes is too large"));
}

// A header may claim any size: memory follows the bytes that are there.
TEST_F(Dense, RefusesHostileShapesWithoutAllocating) {
  EXPECT_THAT(error(npy<float>("<f4", "(4294967296, 4294967296)", {1})), HasSubstr("is too large"));
  EXPECT_THAT(error(npy<float>("<f4", "(99999999999999999999999,)", {1})), HasSubstr("is not whole numbers"));
  EXPECT_THAT(error(npy<float>("<f4", "(2, 5000000000)", {1})), HasSubstr("too many features"));
  EXPECT_THAT(error(npy<float>("<f4", "(5000000000, 2)", {1})), HasSubstr("too many rows"));
  const std::string labels = npy_header("<i8", "(4000000000,)");
  folder_.write("y.npy", labels);
  EXPECT_THAT(error_of([&] {
                read(npy<float>("<f4", "(4000000000, 4000000000)", {1, 2, 3, 4}, true));
              }),
              HasSubstr("is too large"));
  EXPECT_THAT(error_of([&] {
                read(npy<float>("<f4", "(4000000000, 400000000)", {1, 2, 3, 4}, true));
              }),
              HasSubstr("ends after 0 of its 4000000000 labels"));
  StreamOptions predict;
  predict.labels_required = false;
  std::filesystem::remove(folder_.path("y.npy"));
  for (const bool fortran : {false, true})
    EXPECT_THAT(error_of([&] {
                  read_all(
                      folder_.write("X.npy", npy<float>("<f4", "(4000000000, 400000000)", {1, 2}, fortran)),
                      {}, predict);
                }),
                HasSubstr("ends after 2 of the"));
}

TEST_F(Dense, IdxOfEveryType) {
  folder_.write("b-labels-idx1-ubyte", idx_header(8, {2}) + std::string("\x05\x03", 2));
  const auto check = [&]<class T>(char type, T) {
    std::string bytes = idx_header(type, {2, 1, 2});
    for (const T item : {T(1), T(0), T(0), T(9)}) bytes += bytes_of(item, true);
    EXPECT_EQ(shown(read_all(folder_.write("b-images-idx3-ubyte", bytes))), "5|0:1\n3|1:9\n") << int{type};
    const std::string packed = folder_.write("b-images-idx3-ubyte.gz", gzip(bytes));
    EXPECT_EQ(shown(read_all(packed)), "5|0:1\n3|1:9\n") << "uncompressed labels beside compressed images";
    EXPECT_THAT(
        error_of([&] { read_all(folder_.write("b-images-idx3-ubyte", bytes.substr(0, bytes.size() - 1))); }),
        HasSubstr("ends after 3 of the 4 numbers of its shape (2, 1, 2) (truncated)"));
  };
  check(0x08, std::uint8_t{});
  check(0x09, std::int8_t{});
  check(0x0b, std::int16_t{});
  check(0x0c, std::int32_t{});
  check(0x0d, float{});
  check(0x0e, double{});
  EXPECT_THAT(error_of([&] { read_all(folder_.write("c", "1 1:1\n"), as(Format::idx)); }),
              HasSubstr("is not idx: it begins with '1 1:'"));
  EXPECT_THAT(error_of([&] { read_all(folder_.write("c", "1 1:1 2:2\n"), as(Format::npy)); }),
              HasSubstr("is not npy: it begins with '1 1:1 '"));
}

TEST_F(Dense, FindsTheLabelFile) {
  const std::string features = npy<std::uint8_t>("|u1", "(2, 1)", {1, 1});
  const std::string alone = folder_.write("alone.npy", features);
  EXPECT_EQ(error_of([&] { read_all(alone); }),
            alone + ": found no label file beside it; give the labels with --label-file");
  ReadOptions options;
  options.label_file = folder_.path("y.npy");
  EXPECT_EQ(shown(read_all(alone, options)), "7|0:1\n-1|0:1\n");
  EXPECT_EQ(shown(read_all(alone + "," + folder_.path("y.npy"))), "7|0:1\n-1|0:1\n");
  EXPECT_THAT(error_of([&] { read_all(alone + ",none.npy"); }), HasSubstr("none.npy: no such file"));
  StreamOptions predict;
  predict.labels_required = false;
  EXPECT_EQ(shown(read_all(alone, {}, predict)), "|0:1\n|0:1\n");
  // Optional labels are read only if named: the file beside the features may belong to other rows.
  const std::string with_neighbour = folder_.write("X.npy", npy<std::uint8_t>("|u1", "(3, 1)", {1, 1, 1}));
  EXPECT_EQ(shown(read_all(with_neighbour, {}, predict)), "|0:1\n|0:1\n|0:1\n");
  EXPECT_THAT(error_of([&] { read_all(with_neighbour, options, predict); }), HasSubstr("has 2 labels"));
}

TEST(FindLabelFile, KnowsTheUsualNames) {
  const TempFolder folder;
  const auto found = [&](const std::string& features, const std::string& labels) {
    folder.write(labels, "");
    const bool same = find_label_file(folder.path(features)) == folder.path(labels);
    std::filesystem::remove(folder.path(labels));
    return same;
  };
  EXPECT_TRUE(found("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"));
  EXPECT_TRUE(found("train-images.idx3-ubyte", "train-labels.idx1-ubyte"));
  EXPECT_TRUE(found("images.npy", "labels.npy"));
  EXPECT_TRUE(found("X.npy", "y.npy"));
  EXPECT_TRUE(found("x_train.npy.zst", "y_train.npy"));
  EXPECT_TRUE(found("max_X.npy", "max_y.npy"));
  EXPECT_TRUE(found("train_features.npy", "train_labels.npy"));
  EXPECT_TRUE(found("data.npy", "target.npy"));
  EXPECT_FALSE(found("max.npy", "may.npy"));
  EXPECT_FALSE(found("X.npy", "z.npy"));
}

TEST_F(Dense, BatchesGiveTheSameRows) {
  for (const bool fortran : {false, true}) {
    std::vector<double> items;
    for (int i = 0; i < 100 * 7; ++i) items.push_back(i % 3 == 0 ? i : 0);
    std::vector<double> labels(100);
    for (int i = 0; i < 100; ++i) labels[static_cast<std::size_t>(i)] = i % 9;
    folder_.write("y.npy", npy<double>("<f8", "(100,)", labels));
    const std::string path = folder_.write("X.npy", npy<double>("<f8", "(100, 7)", items, fortran));
    const std::string whole = shown(read_all(path));
    std::vector<std::string> notes;
    RowStream stream(path, {}, {}, notes);
    std::string parts;
    for (RawRows batch = stream.next(9); batch.size() > 0; batch = stream.next(9)) parts += shown(batch);
    EXPECT_EQ(parts, whole);
  }
}

}  // namespace
}  // namespace truemax

#include "data/options.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "data/formats.hpp"
#include "data/generate.hpp"

namespace truemax {
namespace {

template <class Options>
void set(Options& options, const char* name, const char* value) {
  OptionTable table;
  options.describe(table);
  const Option* option = table.find(name);
  ASSERT_NE(option, nullptr) << name;
  option->parse(value);
}

TEST(DataOptions, AreSetByName) {
  ReadOptions read;
  set(read, "format", "libsvm");
  set(read, "format", "auto");
  EXPECT_EQ(read.format, Format::automatic);
  EXPECT_EQ(formats().size(), 9U);
  for (const FormatInfo& info : formats()) {
    set(read, "format", info.name);
    EXPECT_EQ(read.format, info.format);
    EXPECT_STREQ(format_name(info.format), info.name);
    EXPECT_EQ(&find_format(info.format), &info);
    ASSERT_NE(info.recognises, nullptr);
    ASSERT_NE(info.open, nullptr);
  }
  EXPECT_THROW(find_format(Format::automatic), std::logic_error);
  set(read, "label-file", "y.npy");
  set(read, "split", "s.txt");
  set(read, "split-column", "3");
  EXPECT_EQ(read.label_file, "y.npy");
  EXPECT_EQ(read.split, "s.txt");
  EXPECT_EQ(read.split_column, 3U);
  EXPECT_THROW(set(read, "split-column", "0"), UserError);

  PreprocessOptions preprocess;
  set(preprocess, "labels", "all");
  set(preprocess, "max-features", "10000");
  set(preprocess, "normalize", "l2");
  EXPECT_EQ(preprocess.labels, LabelRule::all);
  EXPECT_EQ(preprocess.max_features, 10000U);
  EXPECT_EQ(preprocess.normalize, Normalize::l2);

  GenerateOptions generate;
  set(generate, "skew", "0.5");
  set(generate, "test-rows", "7");
  EXPECT_EQ(generate.skew, 0.5);
  EXPECT_EQ(generate.test_rows, 7U);
  EXPECT_THROW(set(generate, "separability", "1.5"), UserError);
}

}  // namespace
}  // namespace truemax

#include "data/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/files.hpp"
#include "core/random.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"
#include "data/zipf.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

std::string text_of(const GenerateOptions& options, Part part, std::size_t threads = 1) {
  std::string text;
  const GenerateSummary summary =
      generate_rows(options, part, threads, [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(summary.bytes, text.size());
  return text;
}

class EveryTextFormat : public ::testing::TestWithParam<Format> {};

TEST_P(EveryTextFormat, RoundTrips) {
  const TempFolder folder;
  GenerateOptions options;
  options.rows = 2000;
  options.test_rows = 300;
  options.classes = 150;
  options.features = 400;
  options.format = GetParam();
  const std::string path = folder.path("train.txt");
  const GenerateSummary summary = generate_file(options, Part::train, 2, path);
  std::vector<std::string> notes;
  const RawRows raw = read_rows(path, {}, 0, 2, notes);
  EXPECT_EQ(raw.format, GetParam()) << "recognised by its content";
  EXPECT_EQ(raw.size(), summary.rows);
  EXPECT_EQ(raw.rows.nonzeros(), summary.nonzeros);
  EXPECT_EQ(raw.label_names.size(), summary.classes);
  EXPECT_EQ(summary.classes, options.classes);
  for (const float v : raw.rows.value)
    ASSERT_TRUE(v > 0 && v <= (GetParam() == Format::fasttext ? 3.0F : 1.0F));

  // Reading back and writing again in another format changes nothing.
  if (GetParam() == Format::fasttext) return;
  GenerateOptions same = options;
  same.format = Format::xmlrepository;
  generate_file(same, Part::train, 1, folder.path("same.txt"));
  EXPECT_EQ(shown(raw), shown(read_all(folder.path("same.txt"))));
}

TEST_P(EveryTextFormat, TrainAndTestPartsMatch) {
  const TempFolder folder;
  GenerateOptions options;
  options.rows = 3000;
  options.test_rows = 500;
  options.format = GetParam();
  const Dataset train =
      make_training_set(read_all(folder.write("train", text_of(options, Part::train))), {}, 1000);
  const Dataset test = make_test_set(read_all(folder.write("test", text_of(options, Part::test))), {},
                                     train.classes, train.space, false);
  EXPECT_EQ(test.size(), 500U);
  EXPECT_EQ(test.statistics.unseen, 0U);
  EXPECT_EQ(test.statistics.unknown_words, 0U);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryTextFormat,
                         ::testing::Values(Format::xmlrepository, Format::lshtc, Format::libsvm,
                                           Format::fasttext),
                         [](const auto& tested) { return std::string(format_name(tested.param)); });

TEST(Generate, IsDeterministicForAnyThreadCount) {
  GenerateOptions options;
  options.rows = 20000;
  const std::string once = text_of(options, Part::train, 1);
  EXPECT_EQ(once, text_of(options, Part::train, 3));
  options.seed = 2;
  EXPECT_NE(once, text_of(options, Part::train, 1));
}

TEST(Generate, EveryClassOccursWithAsManyRowsAsClasses) {
  GenerateOptions options;
  options.rows = options.classes = 500;
  const GenerateSummary summary = generate_rows(options, Part::train, 1, [](std::string_view) {});
  EXPECT_EQ(summary.classes, 500U);
  options.rows = 100;
  EXPECT_LE(generate_rows(options, Part::train, 1, [](std::string_view) {}).classes, 100U);
}

TEST(Generate, MeetsTheMeanNumberOfFeatures) {
  GenerateOptions options;
  for (const double nonzeros : {1.0, 5.5, 50.0}) {
    options.nonzeros = nonzeros;
    const GenerateSummary summary = generate_rows(options, Part::train, 2, [](std::string_view) {});
    const double mean = static_cast<double>(summary.nonzeros) / static_cast<double>(summary.rows);
    // A row's length is uniform with deviation below 0.3 * nonzeros + 1: allow five deviations of the mean.
    const double tolerance = 5 * (0.3 * nonzeros + 1) / 100;
    EXPECT_NEAR(mean, nonzeros == 1.0 ? 1.25 : nonzeros, tolerance + 0.25) << nonzeros;
  }
  options.features = 5;
  options.nonzeros = 5;
  EXPECT_GT(generate_rows(options, Part::train, 1, [](std::string_view) {}).nonzeros, options.rows * 4);
}

TEST(Generate, RefusesImpossibleRequests) {
  GenerateOptions options;
  options.format = Format::npy;
  EXPECT_THAT(error_of([&] { text_of(options, Part::train); }), HasSubstr("only text can be generated"));
  options.format = Format::libsvm;
  options.features = 3;
  EXPECT_THAT(error_of([&] { text_of(options, Part::train); }),
              HasSubstr("--nonzeros 20: more than the 3 features"));
  EXPECT_THAT(error_of([&] { generate_file({}, Part::train, 1, "/no/such/folder/f"); }),
              HasSubstr("/no/such/folder/f: there is no folder /no/such/folder"));
}

TEST(Generate, FailureKeepsTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.write("f", "older");
  const auto content = [&] {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  GenerateOptions options;
  options.features = options.classes = options.rows = 4294967294;  // 170 GB of tables
  if (available_memory() < (std::uint64_t{100} << 30)) {
    EXPECT_THAT(error_of([&] { generate_file(options, Part::train, 1, path); }),
                HasSubstr("give fewer --features, --classes or --rows"));
  }
  EXPECT_EQ(content(), "older");
  const std::atomic<bool> stop{true};
  EXPECT_TRUE(generate_file({}, Part::train, 1, path, [&] { return &stop; }).stopped);
  EXPECT_EQ(content(), "older");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("")), {}), 1)
      << "no leftover files";
}

// Chi-square with n - 1 degrees of freedom exceeds n + 6 sqrt(2 n) about once in 10^7 (the seed is fixed, so
// the test is deterministic).
TEST(ZipfTable, FollowsTheZipfLaw) {
  for (const double skew : {0.0, 0.7, 1.0, 2.0}) {
    constexpr std::uint64_t kNumbers = 50, kDraws = 400000;
    const ZipfTable table(kNumbers, skew);
    const CounterRandom bits(7, Stream::generate_label, 0);
    std::vector<double> counts(kNumbers, 0.0);
    for (std::uint64_t i = 0; i < kDraws; ++i) counts[table.draw(bits.at(i).first, bits.at(i).second)] += 1;
    double sum = 0, chi_square = 0;
    for (std::uint64_t i = 0; i < kNumbers; ++i) sum += std::pow(static_cast<double>(i + 1), -skew);
    for (std::uint64_t i = 0; i < kNumbers; ++i) {
      const double expected = static_cast<double>(kDraws) * std::pow(static_cast<double>(i + 1), -skew) / sum;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 50 + 6 * std::sqrt(100.0)) << skew;
  }
}

}  // namespace
}  // namespace truemax

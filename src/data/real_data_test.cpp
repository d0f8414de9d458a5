// Real files, if present: the counts stated in their README.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

std::string data_folder() {
  if (const char* folder = std::getenv("TRUEMAX_DATA")) return folder;
#ifdef TRUEMAX_SOURCE_DIR
  return TRUEMAX_SOURCE_DIR "/../shared/data";
#else
  return "../shared/data";
#endif
}

Dataset train_on(const std::string& path, std::uint64_t max_rows, std::uint64_t max_features) {
  std::vector<std::string> notes;
  PreprocessOptions options;
  options.max_features = max_features;
  return make_training_set(read_rows(path, {}, max_rows, 2, notes), options);
}

class RealData : public ::testing::Test {
 protected:
  // Skips the test if the file is missing.
  bool has(const std::string& name) {
    path_ = fmt::format("{}/{}", data_folder(), name);
    return std::filesystem::exists(path_);
  }
  std::string path_;
};

#define SKIP_WITHOUT(name) \
  if (!has(name)) GTEST_SKIP() << "no " << path_ << "; set TRUEMAX_DATA to the folder of the real data sets"

TEST_F(RealData, Bibtex) {
  SKIP_WITHOUT("bibtex/train.txt.gz");
  const Dataset data = train_on(path_, 0, 0);
  EXPECT_EQ(data.classes->size(), 146U);
  EXPECT_EQ(data.size(), 4880U);
  EXPECT_EQ(data.space->features, 1836U);
}

TEST_F(RealData, Delicious) {
  SKIP_WITHOUT("delicious/train.txt.gz");
  const Dataset data = train_on(path_, 0, 0);
  EXPECT_EQ(data.classes->size(), 352U);
  EXPECT_EQ(data.size(), 12910U);
  EXPECT_EQ(data.statistics.rows_in_file, 12920U);
  EXPECT_EQ(data.statistics.rows_without_label, 10U);
  EXPECT_EQ(data.space->features, 500U);
}

TEST_F(RealData, Yso) {
  SKIP_WITHOUT("yso-finna-en/train.txt.gz");
  const Dataset data = train_on(path_, 100000, 10000);
  EXPECT_EQ(data.classes->size(), 15450U);
  EXPECT_EQ(data.size(), 99641U);
  EXPECT_EQ(data.space->features, 10000U);
  EXPECT_EQ(data.space->file_features, 63199U);
}

TEST_F(RealData, Mnist) {
  SKIP_WITHOUT("mnist/train-images-idx3-ubyte.gz");
  const Dataset data = train_on(path_, 0, 0);
  EXPECT_EQ(data.classes->size(), 10U);
  EXPECT_EQ(data.size(), 60000U);
  EXPECT_EQ(data.space->features, 784U);
  EXPECT_NEAR(static_cast<double>(data.rows.nonzeros()) / 60000.0, 149.90, 0.005);
}

TEST_F(RealData, Fb15k) {
  SKIP_WITHOUT("fb15k-237/train.txt.gz");
  const Dataset data = train_on(path_, 0, 0);
  EXPECT_EQ(data.classes->size(), 13379U);
  EXPECT_EQ(data.size(), 272115U);
  EXPECT_EQ(data.space->features, 14778U);
}

}  // namespace
}  // namespace truemax

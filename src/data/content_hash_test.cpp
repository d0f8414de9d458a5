#include "data/content_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "data/generate.hpp"
#include "data/load.hpp"
#include "data/test_support.hpp"

namespace truemax {
namespace {

Dataset read(const std::string& path, const std::string& weights = "",
             const PreprocessOptions& options = {}) {
  std::vector<std::string> notes;
  ReadOptions how;
  how.row_weights = weights;
  return make_training_set(read_rows(path, how, 0, 1, notes), options);
}

TEST(ContentHash, CoversEverythingTrainingReads) {
  const TempFolder folder;
  const char* const kRows = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n";
  const auto hash = [&](const std::string& text) { return content_hash(read(folder.write("d", text)), 1); };
  std::set<std::uint64_t> seen{hash(kRows)};
  for (const char* other : {
           "4 5 3\n0,2 0:1 3:0.5000001\n1 1:1\n2 2:1 4:2\n1 0:0.5\n",  // a value
           "4 5 3\n0,2 0:1 3:0.5\n2 2:1 4:2\n1 1:1\n1 0:0.5\n",        // two rows swapped
           "4 5 3\n0,2 0:1 2:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n",        // a feature
           "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n2 0:0.5\n",        // a label
           "4 5 3\n0,1 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n",        // a second label
           "4 5 3\n0 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n",          // one label less
           "4 6 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n",        // the number of features
           "4 5 4\n0,3 0:1 3:0.5\n1 1:1\n3 2:1 4:2\n1 0:0.5\n",        // the name of a class
           "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1\n1 0:0.5 4:2\n",        // where a row ends
           "3 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n",                 // a row less
       })
    EXPECT_TRUE(seen.insert(hash(other)).second) << other;
  EXPECT_EQ(hash(kRows), *seen.find(hash(kRows)));

  const std::string path = folder.write("d", kRows);
  EXPECT_TRUE(seen.insert(content_hash(read(path, folder.write("w", "1\n2\n1\n1\n")), 1)).second);
  EXPECT_TRUE(seen.insert(content_hash(read(path, folder.write("w", "1\n1\n2\n1\n")), 1)).second);
  PreprocessOptions options;
  options.labels = LabelRule::all;
  EXPECT_TRUE(seen.insert(content_hash(read(path, "", options), 1)).second);
}

TEST(ContentHash, ChangesWithAWord) {
  const TempFolder folder;
  const auto hash = [&](const char* text) { return content_hash(read(folder.write("d", text)), 1); };
  EXPECT_EQ(hash("__label__a x y\n__label__b y z\n"), hash("__label__a x y\n__label__b y z\n"));
  EXPECT_NE(hash("__label__a x y\n__label__b y z\n"), hash("__label__a x y\n__label__b y Z\n"));
}

// Large enough for several chunks.
TEST(ContentHash, IsIndependentOfThreadsAndStorage) {
  const TempFolder folder;
  GenerateOptions generate;
  generate.rows = 30000, generate.features = 500, generate.classes = 50, generate.nonzeros = 20;
  generate_file(generate, Part::train, 1, folder.path("d"));
  const Dataset data = read(folder.path("d"));
  ASSERT_GT(data.rows.nonzeros() * sizeof(float), std::size_t{2} << 20);
  const std::uint64_t hash = content_hash(data, 1);
  EXPECT_EQ(content_hash(data, 3), hash);
  std::ifstream in(folder.path("d"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(content_hash(read(folder.write("d.gz", gzip(text))), 2), hash);
}

}  // namespace
}  // namespace truemax

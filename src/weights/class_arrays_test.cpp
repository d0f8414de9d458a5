#include "weights/class_arrays.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "core/error.hpp"
#include "ranks/thread_ranks.hpp"
#include "weights/kept.hpp"
#include "weights/weights.hpp"

namespace truemax {
namespace {

std::string bytes_of(StateBuffer& buffer) {
  std::string bytes(buffer.left(), '\0');
  buffer.read(bytes);
  return bytes;
}
StateBuffer buffer_of(const std::string& bytes) {
  StateBuffer buffer;
  buffer.write(bytes);
  return buffer;
}

std::shared_ptr<const BlockShare> share_of(std::size_t classes, const Ranks& ranks) {
  std::vector<double> mass(classes);
  for (std::size_t k = 0; k < classes; ++k) mass[k] = 1.0 / static_cast<double>(1 + k % 37);
  return std::make_shared<const BlockShare>(mass, ranks.rank(), ranks.size());
}

// The numbers of own classes, of an array whose numbers are 0, 1, ...; padding counts as classes.
std::vector<float> own_part(const BlockShare& share, std::size_t each, bool padded) {
  std::vector<float> own;
  for (ClassId k = 0; k < own_of(share, padded); ++k)
    for (std::size_t i = 0; i < each; ++i)
      own.push_back(static_cast<float>(share.global_class(k) * each + i));
  return own;
}

std::string whole_bytes(std::size_t classes, std::size_t each, bool padded) {
  const std::size_t rows = padded ? (classes + 15) / 16 * 16 : classes;
  std::vector<float> numbers(rows * each);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  StateBuffer buffer;
  buffer.put_array(std::span<const float>(numbers));
  return bytes_of(buffer);
}

class ClassArrays : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ClassArrays, testing::Values(1, 2, 3, 4));

// Blocks of 20,000 numbers a class are longer than a message.
TEST_P(ClassArrays, AreWrittenAndReadAsOneProcessDoes) {
  for (const std::size_t classes : {3, 16, 40, 161})
    for (const std::size_t each : {1, 7, 20000})
      for (const bool padded : {false, true}) {
        const std::string expected = whole_bytes(classes, each, padded);
        run_thread_ranks(GetParam(), [&](Ranks& ranks) {
          const auto share = share_of(classes, ranks);
          const std::vector<float> own = own_part(*share, each, padded);
          StateBuffer written;
          put_of_classes(written, share.get(), std::span<const float>(own), padded);
          if (ranks.first()) {
            EXPECT_TRUE(bytes_of(written) == expected) << classes << " " << each << " " << padded;
          }
          StateBuffer there = buffer_of(expected);
          std::vector<float> read;
          EXPECT_TRUE(get_of_classes(there, share.get(), read, padded));
          EXPECT_TRUE(read == own) << classes << " " << each << " " << padded;
          EXPECT_EQ(there.left(), 0U);
        });
      }
}

TEST_P(ClassArrays, AnEmptyArrayIsEmptyEverywhere) {
  run_thread_ranks(GetParam(), [&](Ranks& ranks) {
    const auto share = share_of(100, ranks);
    StateBuffer buffer;
    put_of_classes(buffer, share.get(), std::span<const double>());
    StateBuffer there = buffer_of(std::string(8, '\0'));
    std::vector<double> read{1, 2};
    EXPECT_FALSE(get_of_classes(there, share.get(), read));
    EXPECT_TRUE(read.empty());
    if (ranks.first()) {
      EXPECT_EQ(bytes_of(buffer), std::string(8, '\0'));
    }
  });
}

TEST(ClassArrays, ALengthThatIsNotOfTheseClassesIsRefused) {
  run_thread_ranks(2, [&](Ranks& ranks) {
    const auto share = share_of(40, ranks);
    StateBuffer there = buffer_of(whole_bytes(41, 1, false));
    std::vector<float> read;
    EXPECT_THROW(get_of_classes(there, share.get(), read), UserError);
  });
}

// Weights with scales and intercepts, of all classes or of this rank's.
Weights weights_of(std::size_t classes, const std::shared_ptr<const BlockShare>& share) {
  constexpr std::size_t kFeatures = 5;
  Weights weights(share ? share->classes() : classes, kFeatures, true);
  weights.set_share(share);
  weights.allow_scaling();
  for (ClassId own = 0; own < weights.classes(); ++own) {
    const ClassId k = share ? share->global_class(own) : own;
    std::mt19937 random(k);
    std::normal_distribution<float> normal;
    std::vector<float> row(kFeatures);
    for (float& v : row) v = normal(random);
    weights.set_class(own, row);
    weights.intercept()[own] = normal(random);
    weights.scale_class(own, 1.0 / (1 + k % 3));
  }
  weights.scale_all(0.5);
  return weights;
}

TEST_P(ClassArrays, WeightsAreSavedInTheFormatOfOneProcessAndLoadedByAnyNumberOfRanks) {
  for (const std::size_t classes : {10, 16, 100}) {
    const Weights whole = weights_of(classes, nullptr);
    StateBuffer of_one, kept_of_one;
    whole.write(of_one);
    KeptWeights kept_whole("");
    kept_whole.keep(whole);
    kept_whole.write(kept_of_one);
    const std::string expected = bytes_of(of_one), expected_kept = bytes_of(kept_of_one);
    run_thread_ranks(GetParam(), [&](Ranks& ranks) {
      const auto share = share_of(classes, ranks);
      const Weights own = weights_of(classes, share);
      StateBuffer written;
      own.write(written);
      if (ranks.first()) {
        EXPECT_TRUE(bytes_of(written) == expected) << classes;
      }
      for (const std::string& folder : {std::string(), std::filesystem::temp_directory_path().string()}) {
        StateBuffer kept_written;
        KeptWeights kept(folder);
        kept.keep(own);
        kept.write(kept_written);
        if (ranks.first()) {
          EXPECT_TRUE(bytes_of(kept_written) == expected_kept) << classes;
        }
        StateBuffer there = buffer_of(expected_kept);
        KeptWeights again(folder);
        again.read(there, share);
        Weights restored = weights_of(classes, share);
        restored.clear();
        again.restore(restored);
        EXPECT_TRUE(std::ranges::equal(restored.memory(), own.memory()));
      }
      Weights read(share->classes(), own.features(), false);
      read.set_share(share);
      StateBuffer there = buffer_of(expected);
      read.read(there);
      EXPECT_TRUE(std::ranges::equal(read.memory(), own.memory()));
      EXPECT_TRUE(std::ranges::equal(read.intercept(), own.intercept()));
      EXPECT_TRUE(read.has_intercept());
      EXPECT_EQ(read.scales().of_class, own.scales().of_class);
      EXPECT_EQ(read.scales().common, own.scales().common);
    });
  }
}

}  // namespace
}  // namespace truemax

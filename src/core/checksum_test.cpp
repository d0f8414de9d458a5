#include "core/checksum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace truemax {
namespace {

// Values published by other implementations of XXH64.
TEST(Xxh64, MatchesPublishedValues) {
  EXPECT_EQ(xxh64(std::string("")), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64(std::string("a")), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(xxh64(std::string("abc")), 0x44bc2cf5ad770999U);
  EXPECT_EQ(xxh64(std::string("xxhash")), 0x32dd38952c4bc720U);
  EXPECT_EQ(xxh64(std::string("xxhash"), 20141025), 0xb559b98d844e0635U);
  EXPECT_EQ(xxh64(std::string("Nobody inspects the spammish repetition")), 0xfbcea83c8a378bf1U);
}

TEST(Xxh64, ChangesWithEveryBit) {
  for (std::size_t size = 1; size <= 80; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(37 * i + size);
    const std::uint64_t sum = xxh64(bytes);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      std::string other = bytes;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      EXPECT_NE(xxh64(other), sum) << size << " bytes, bit " << bit;
    }
    EXPECT_NE(xxh64(bytes, 1), sum);
    EXPECT_NE(xxh64(bytes + '\0'), sum);
  }
}

TEST(ChecksumText, RoundTripsAndRefusesOtherForms) {
  for (const std::uint64_t sum : {std::uint64_t{0}, std::uint64_t{0xab12}, ~std::uint64_t{0}})
    EXPECT_EQ(parse_checksum(checksum_text(sum)), sum);
  for (const char* bad :
       {"", "0", "00000000000000000", "000000000000000G", "000000000000000A", " 00000000000000b"})
    EXPECT_FALSE(parse_checksum(bad)) << bad;
}

}  // namespace
}  // namespace truemax

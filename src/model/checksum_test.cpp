// Checksums of a model file: damage is found on loading, and files without checksums still load.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "model/model.hpp"
#include "model/test_support.hpp"

namespace truemax {
namespace {

using Json = nlohmann::json;
constexpr std::size_t kFeatures = 3;

class ModelChecksums : public testing::Test {
 protected:
  // Names with escapes in the header: a flipped bit may give another escape of the same name.
  void SetUp() override {
    save_model(random_model(1, {kFeatures, true, true, {"a", "b\x1f", "c\"\\", "\xc3\xa9"}}),
               folder_.path("good"));
    good_ = read_bytes(folder_.path("good"));
    std::uint64_t length = 0;
    std::memcpy(&length, good_.data(), 8);
    begin_ = 8 + length;
    header_ = Json::parse(good_.substr(8, length));
    meta_ = Json::parse(header_["__metadata__"]["truemax"].get<std::string>());
  }
  // Empty if the file loads.
  std::string error(const std::string& bytes, std::size_t threads = 1) const {
    std::filesystem::remove(folder_.path("m"));
    const std::string path = folder_.write("m", bytes);
    try {
      load_model(path, kAnyMemory, threads);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  // The same tensors with another header.
  std::string with_header(const Json& header) const { return with_text(header.dump()); }
  std::string with_text(const std::string& text) const {
    const std::uint64_t length = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + text + good_.substr(begin_);
  }
  TempFolder folder_;
  std::string good_;
  std::size_t begin_ = 0;
  Json header_, meta_;
};

TEST_F(ModelChecksums, EveryFlippedBitIsRefused) {
  ASSERT_EQ(error(good_), "");
  for (std::size_t bit = 0; bit < 8 * good_.size(); ++bit) {
    std::string bytes = good_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const std::string message = error(bytes);
    EXPECT_EQ(message.find(folder_.path("m")), 0U) << "byte " << bit / 8 << ": '" << message << "'";
    EXPECT_NE(message.find("; "), std::string::npos) << message;
  }
}

TEST_F(ModelChecksums, SwappedRowsAreRefused) {
  std::string bytes = good_;
  constexpr std::size_t kRow = kFeatures * sizeof(float);
  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(begin_),
                   bytes.begin() + static_cast<std::ptrdiff_t>(begin_ + kRow),
                   bytes.begin() + static_cast<std::ptrdiff_t>(begin_ + kRow));
  for (const std::size_t threads : {1U, 3U}) {
    EXPECT_EQ(error(good_, threads), "");
    EXPECT_NE(error(bytes, threads).find("'weight' has a wrong checksum"), std::string::npos);
  }
}

// As docs/model-file.md defines them.
TEST_F(ModelChecksums, CoverRowsAndMetadata) {
  const std::string text = header_["__metadata__"]["truemax"];
  EXPECT_EQ(header_["__metadata__"]["truemax_checksum"], checksum_text(xxh64(text)));
  std::uint64_t sum = 0;
  constexpr std::size_t kRow = kFeatures * sizeof(float);
  for (std::size_t r = 0; r < 4; ++r) sum += xxh64(good_.substr(begin_ + r * kRow, kRow), r);
  EXPECT_EQ(meta_["checksums"]["weight"], checksum_text(sum));
  EXPECT_EQ(meta_["checksums"]["intercept"], checksum_text(xxh64(good_.substr(begin_ + 4 * kRow))));
}

TEST_F(ModelChecksums, SurviveAReformattedHeader) {
  for (const int indent : {-1, 0, 1, 2, 4}) EXPECT_EQ(error(with_text(header_.dump(indent))), "") << indent;
  std::string spaced = header_.dump(0);  // one blank after commas and colons
  for (std::size_t at = 0; (at = spaced.find('\n', at)) != std::string::npos;)
    spaced.replace(at, 1, at > 0 && spaced[at - 1] == ',' ? " " : "");
  EXPECT_EQ(error(with_text(spaced)), "");
}

// Blanks that no writer puts there are damage, though they change no value.
TEST_F(ModelChecksums, CoverBlanksOfTheHeader) {
  const std::string text = header_.dump() + "   ";
  EXPECT_EQ(error(with_text(text)), "");
  for (std::size_t at = 0; at <= text.size(); ++at)
    for (const char c : {' ', '\t', '\n', '\r'}) {
      std::string other = text;
      other.insert(at, 1, c);
      if (other != text + ' ') EXPECT_NE(error(with_text(other)), "") << at << " " << int{c};
      if (at == text.size() || text[at] == c) continue;
      other = text;
      other[at] = c;
      EXPECT_NE(error(with_text(other)), "") << at << " " << int{c};
    }
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    std::string other = text;
    std::swap(other[at], other[at + 1]);
    if (other != text) EXPECT_NE(error(with_text(other)), "") << at;
  }
}

TEST_F(ModelChecksums, MayBeAbsentButNotPartlyMissing) {
  Json without_own = header_;
  without_own["__metadata__"].erase("truemax_checksum");
  EXPECT_NE(error(with_header(without_own)).find("the metadata has a wrong checksum"), std::string::npos);
  Json meta = meta_;
  meta.erase("checksums");
  Json only_own = header_;
  only_own["__metadata__"]["truemax"] = meta.dump();
  EXPECT_NE(error(with_header(only_own)).find("the metadata has a wrong checksum"), std::string::npos);
  only_own["__metadata__"]["truemax_checksum"] = checksum_text(xxh64(meta.dump()));
  EXPECT_NE(error(with_header(only_own)).find("checksums"), std::string::npos);
  Json none = without_own;
  none["__metadata__"]["truemax"] = meta.dump();
  EXPECT_EQ(error(with_header(none)), "");
  none["__metadata__"]["format"] = "pt";
  EXPECT_EQ(error(with_header(none)), "");
}

// Found by truemax_corrupt: with both keys renamed, a file passed for an old one.
TEST_F(ModelChecksums, AreNotLostWithTheNamesOfTheirKeys) {
  Json meta = meta_, header = header_;
  meta["checkzums"] = meta["checksums"];
  meta.erase("checksums");
  header["__metadata__"]["truemax"] = meta.dump();
  header["__metadata__"].erase("truemax_checksum");
  EXPECT_NE(error(with_header(header)).find("'checkzums' and no checksums"), std::string::npos);
  meta.erase("checkzums");
  header["__metadata__"]["truemax"] = meta.dump();
  EXPECT_EQ(error(with_header(header)), "");
  header["__metadata__"]["truemax_checkzum"] = "0123456789abcdef";
  EXPECT_NE(error(with_header(header)).find("'truemax_checkzum' and no checksums"), std::string::npos);
}

}  // namespace
}  // namespace truemax

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "data/test_support.hpp"

namespace truemax {
namespace {

// The oracle: one line at a time with the standard library, without regard to speed.
std::string oracle(const std::string& text, Format format) {
  std::istringstream lines(text);
  std::string line, out;
  if (format == Format::xmlrepository) std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (format == Format::libsvm) line = line.substr(0, line.find('#'));
    const bool blank = line.find_first_not_of(" \t") == std::string::npos;
    if (blank && format != Format::xmlrepository) continue;
    std::string labels;
    std::map<std::uint32_t, float> features;
    const bool starts_blank = line.empty() || line[0] == ' ' || line[0] == '\t';
    if (format == Format::lshtc)
      while (line.find(", ") != std::string::npos) line.erase(line.find(", ") + 1, 1);
    std::istringstream tokens(line);
    std::string token;
    bool first = true;
    while (tokens >> token) {
      const std::size_t colon = token.find(':');
      if (first && !starts_blank && colon == std::string::npos) {
        std::istringstream names(token);
        std::string name;
        std::vector<std::string> seen;
        while (std::getline(names, name, ',')) {
          if (name[0] == '+') name = name.substr(1);
          if (name.size() > 2 && name.substr(name.size() - 2) == ".0") name.resize(name.size() - 2);
          if (std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(name);
        }
        for (const std::string& n : seen) labels += (labels.empty() ? "" : ",") + n;
      } else if (token.substr(0, 4) != "qid:") {
        const auto number = std::strtoul(token.c_str(), nullptr, 10) - (format == Format::libsvm ? 1 : 0);
        features[static_cast<std::uint32_t>(number)] =
            static_cast<float>(std::strtod(token.c_str() + colon + 1, nullptr));
      }
      first = false;
    }
    out += labels + "|";
    bool any = false;
    for (const auto& [f, v] : features) {
      if (v == 0.0F) continue;
      char pair[64];
      std::snprintf(pair, sizeof pair, "%s%u:%.9g", any ? " " : "", f, static_cast<double>(v));
      out += pair;
      any = true;
    }
    out += '\n';
  }
  return out;
}

class RandomText {
 public:
  RandomText(Format format, unsigned seed) : format_(format), random_(seed) {}

  std::string file(std::size_t rows) {
    std::string body;
    std::size_t lines = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      if (format_ != Format::xmlrepository && below(20) == 0) body += below(2) == 0 ? "\n" : "  \t\r\n";
      if (format_ == Format::libsvm && below(20) == 0) body += "# 3:4 a comment\n";
      body += row() + (below(10) == 0 ? "\r\n" : "\n");
      ++lines;
    }
    if (below(2) == 0) body.pop_back();  // no final newline (a carriage return may stay: see CRLF)
    if (!body.empty() && body.back() == '\r') body.pop_back();
    if (format_ == Format::xmlrepository) body = std::to_string(lines) + " 100000 5000\n" + body;
    return body;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  std::string row() {
    std::string line;
    const std::uint64_t labels = below(10) == 0 ? 0 : 1 + below(4);
    for (std::uint64_t i = 0; i < labels; ++i) {
      if (i > 0) line += format_ == Format::lshtc && below(2) == 0 ? ", " : ",";
      line += label();
    }
    std::map<std::uint64_t, std::string> features;
    const std::uint64_t count = below(20) == 0 ? 0 : below(30);
    for (std::uint64_t i = 0; i < count; ++i) features[below(5) == 0 ? below(100000) : below(300)] = value();
    std::vector<std::pair<std::uint64_t, std::string>> order(features.begin(), features.end());
    if (below(5) == 0) std::shuffle(order.begin(), order.end(), random_);
    if (labels == 0) line += ' ';
    if (labels == 0 && order.empty() && format_ != Format::xmlrepository) line = "9";
    if (format_ == Format::libsvm && labels > 0 && below(10) == 0) line += " qid:7";
    for (const auto& [f, v] : order)
      line +=
          (below(20) == 0 ? " \t " : " ") + std::to_string(f + (format_ == Format::libsvm ? 1 : 0)) + ":" + v;
    if (below(10) == 0) line += "  ";
    if (format_ == Format::libsvm && below(10) == 0 && labels > 0) line += " # 1:2 :";
    return line;
  }

  std::string label() {
    if (format_ != Format::libsvm) return std::to_string(below(5000));
    switch (below(6)) {
      case 0:
        return "+" + std::to_string(1 + below(50));
      case 1:
        return "-" + std::to_string(1 + below(50));
      case 2:
        return std::to_string(below(50)) + ".0";
      case 3:
        return "name" + std::to_string(below(50));
      case 4:
        return std::to_string(1048570 + below(10));  // on both sides of Piece::kPlainLabels
      default:
        return std::to_string(below(50));
    }
  }

  std::string value() {
    char text[64];
    switch (below(8)) {
      case 0:
        return "0";
      case 1:
        return "1";
      case 2:
        return "-0.5e-3";
      case 3:
        std::snprintf(text, sizeof text, "%.17g", static_cast<double>(random_()) / 1e15);
        return text;
      case 4:
        std::snprintf(text, sizeof text, "%.3e", static_cast<double>(random_()) * 1e-30);
        return text;
      case 5:
        return "1e-60";
      default:
        std::snprintf(text, sizeof text, "%.4f", static_cast<double>(below(10000)) / 1e4);
        return text;
    }
  }

  Format format_;
  std::mt19937_64 random_;
};

class SparseText : public ::testing::TestWithParam<Format> {};

TEST_P(SparseText, MatchesTheOracle) {
  const TempFolder folder;
  for (unsigned seed = 0; seed < 15; ++seed) {
    const std::string text = RandomText(GetParam(), seed).file(1 + seed * 9);
    const std::string path = folder.write("rows.txt", text);
    StreamOptions stream;
    const RawRows whole = read_all(path, as(GetParam()), stream);
    ASSERT_EQ(shown(whole), oracle(text, GetParam())) << text;
    for (const std::size_t window : {1U, 7U, 64U, 1000U, 100000U}) {
      for (std::size_t threads = 1; threads <= 5; threads += 2) {
        stream.window = window;
        stream.piece = 1 + window / threads;
        stream.threads = threads;
        expect_same(whole, read_all(path, as(GetParam()), stream));
      }
    }
  }
}

TEST_P(SparseText, BatchesGiveTheSameRows) {
  const TempFolder folder;
  const std::string text = RandomText(GetParam(), 77).file(300);
  const std::string path = folder.write("rows.txt", text);
  for (const std::uint64_t most : {1U, 3U, 64U, 299U, 300U, 301U}) {
    std::vector<std::string> notes;
    StreamOptions small;
    small.window = 500;
    small.piece = 100;
    RowStream stream(path, as(GetParam()), small, notes);
    std::string all;
    std::uint64_t rows = 0;
    for (RawRows batch = stream.next(most); batch.size() > 0; batch = stream.next(most)) {
      EXPECT_LE(batch.size(), most);
      EXPECT_EQ(batch.first_row, rows);
      rows += batch.size();
      all += shown(batch);
    }
    EXPECT_EQ(all, oracle(text, GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SparseText,
                         ::testing::Values(Format::xmlrepository, Format::lshtc, Format::libsvm),
                         [](const auto& tested) { return std::string(format_name(tested.param)); });

TEST(SparseLines, ReadsTheUsualForms) {
  const TempFolder folder;
  const auto read = [&](const char* text, Format format) {
    return shown(read_all(folder.write("f", text), as(format)));
  };
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "2 5 5\r\n1,2 0:1 4:-2.5\r\n\r\n",
                 Format::xmlrepository),
            "1,2|0:1 4:-2.5\n|\n");
  EXPECT_EQ(read("\xef\xbb\xbf\xef\xbb\xbfname 1:1\n", Format::libsvm), "\xef\xbb\xbfname|0:1\n")
      << "a second byte order mark belongs to the name";
  EXPECT_EQ(read("3 5 5\n 0:1\n\n3,3,1", Format::xmlrepository), "|0:1\n|\n3,1|\n");
  EXPECT_EQ(read("1 5 5\n1 0:1\n\n\n \n", Format::xmlrepository), "1|0:1\n")
      << "empty lines after the last row";
  EXPECT_EQ(read("33, 20,7 5:1 0:2\n\n4\n", Format::lshtc), "33,20,7|0:2 5:1\n4|\n");
  EXPECT_EQ(read("+1 qid:3 1:1#c\n1.0 2:2 #\n-1 3:3\n1e0 1:1\n01 1:1\nx,y 1:1\n3:1\n 4:1\n1.5 1:1\n",
                 Format::libsvm),
            "1|0:1\n1|1:2\n-1|2:3\n1|0:1\n1|0:1\nx,y|0:1\n|2:1\n|3:1\n1.5|0:1\n");
  EXPECT_EQ(read("1 2:0 1:1e-60 9:0\n", Format::libsvm), "1|\n");
  EXPECT_EQ(read_all(folder.write("f", "1 2:0 9:0\n"), as(Format::libsvm)).features, 9U)
      << "explicit zeros state D";
}

TEST(SparseLines, IgnoresLeadingZerosOfFeatureNumbers) {
  const TempFolder folder;
  const std::string zeros(30, '0');
  const std::string from_one = folder.write("f", "a " + zeros + "1:1 " + zeros + "12:2\n");
  EXPECT_EQ(shown(read_all(from_one, as(Format::libsvm))), "a|0:1 11:2\n");
  const std::string from_zero = folder.write("g", "a " + zeros + ":3 " + zeros + "1:1\n");
  EXPECT_EQ(shown(read_all(from_zero, as(Format::lshtc))), "a|0:3 1:1\n");
}

TEST(SparseLines, ReadsLinesLongerThanTheWindow) {
  const TempFolder folder;
  std::string text = "1";
  for (int i = 1; i <= 300000; ++i) text += " " + std::to_string(i) + ":1";
  StreamOptions stream;
  stream.window = 1000;
  const RawRows raw = read_all(folder.write("f", "2 1:1\n" + text + "\n3 1:1"), {}, stream);
  ASSERT_EQ(raw.size(), 3U);
  EXPECT_EQ(raw.rows.row(1).index.size(), 300000U);
}

TEST(FasttextLines, CountsWordsAndFindsLabelsAnywhere) {
  const TempFolder folder;
  const std::string text =
      "__label__a the cat the\n\nno label here\r\ndog __label__b,c __label__a\tthe __label__b,c\n";
  StreamOptions stream;
  const RawRows whole = read_all(folder.write("f", text), {}, stream);
  EXPECT_EQ(whole.format, Format::fasttext);
  EXPECT_EQ(whole.words, (std::vector<std::string>{"the", "cat", "no", "label", "here", "dog"}));
  EXPECT_EQ(shown(whole), "a|0:2 1:1\n|\n|2:1 3:1 4:1\nb,c,a|0:1 5:1\n");
  for (const std::size_t window : {1U, 10U, 30U}) {
    stream.window = window;
    stream.threads = 2;
    expect_same(whole, read_all(folder.path("f"), {}, stream));
  }
}

}  // namespace
}  // namespace truemax

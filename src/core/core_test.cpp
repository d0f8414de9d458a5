#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <vector>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/huge_pages.hpp"
#include "core/lazy.hpp"
#include "core/options.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"
#include "core/text.hpp"

namespace truemax {
namespace {

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

struct Sample {
  double step = 1;
  std::uint64_t epochs = 50, limit = 0;
  bool intercept = false;
  std::string path;
  enum class Order { random, file } order = Order::random;

  void describe(OptionTable& t) {
    t.number("step", &step, {0, 1e6, true}, "Step.");
    t.count("epochs", &epochs, {1, 100}, "Epochs.");
    t.size_alias("limit", &limit, "free", "Limit.");
    t.toggle("intercept", &intercept, "Intercept.");
    t.text("path", "FILE", &path, "Path.");
    t.choice("order", &order, {{"random", Order::random}, {"file", Order::file}}, "Order.");
  }
};

// Once, whoever asks; a copy and what it is assigned to make their own.
TEST(Lazy, MakesItsValueOnce) {
  Lazy<int> lazy;
  std::atomic<int> made{0};
  const auto make = [&] { return 40 + ++made; };
  parallel_for(64, 4, [&](std::size_t /*i*/) { EXPECT_EQ(lazy.get(make), 41); });
  EXPECT_EQ(made, 1);
  Lazy<int> copy(lazy), other;
  EXPECT_EQ(copy.get(make), 42);
  EXPECT_EQ(other.get(make), 43);
  other = lazy;
  EXPECT_EQ(other.get(make), 44);
  EXPECT_EQ(lazy.get(make), 41);
}

TEST(Options, ParsesAllowedValues) {
  Sample s;
  OptionTable t;
  s.describe(t);
  t.find("step")->parse("1e-3");
  t.find("epochs")->parse("1e2");
  t.find("limit")->parse("1.5K");
  t.find("intercept")->parse("on");
  t.find("order")->parse("file");
  EXPECT_EQ(s.step, 1e-3);
  EXPECT_EQ(s.epochs, 100U);
  EXPECT_EQ(s.limit, 1536U);
  t.find("limit")->parse("free");
  EXPECT_EQ(s.limit, 0U);
  EXPECT_TRUE(s.intercept);
  EXPECT_EQ(s.order, Sample::Order::file);
}

TEST(Options, OutOfRangeErrorNamesOptionAndRange) {
  Sample s;
  OptionTable t;
  s.describe(t);
  for (const char* bad : {"0", "-1", "nan", "inf", "1e7", "abc", "", "1x"}) {
    const std::string message = message_of([&] { t.find("step")->parse(bad); });
    EXPECT_NE(message.find("--step"), std::string::npos) << bad;
    EXPECT_NE(message.find("above 0 to 1e6"), std::string::npos) << message;
  }
  for (const char* bad : {"0", "101", "1.5", "-1", "x", "99999999999999999999999"})
    EXPECT_NE(message_of([&] { t.find("epochs")->parse(bad); }).find("from 1 to 100"), std::string::npos)
        << bad;
  EXPECT_NE(message_of([&] { t.find("order")->parse("both"); }).find("random, file"), std::string::npos);
  EXPECT_NE(message_of([&] { t.find("limit")->parse("12Q"); }).find("--limit"), std::string::npos);
  EXPECT_EQ(s.step, 1);
  EXPECT_EQ(s.epochs, 50U);
}

TEST(Options, RepeatedValuesExtendAList) {
  std::vector<std::string> values;
  OptionTable table;
  table.list("try", "OPTION=A,B", &values, "Help.");
  const Option* option = table.find("try");
  EXPECT_TRUE(option->is_list);
  option->parse("a");
  option->parse("b,c");
  EXPECT_EQ(values, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_THROW(option->parse(""), UserError);
  const nlohmann::json json = option->to_json();
  values.clear();
  option->from_json(json);
  EXPECT_EQ(values, (std::vector<std::string>{"a", "b,c"}));
  for (const char* bad : {"1", "\"a\"", "[1]"})
    EXPECT_THROW(option->from_json(nlohmann::json::parse(bad)), UserError);
}

TEST(Options, CopiedOptionStaysBoundToItsTable) {
  double one = 1, two = 2;
  OptionTable all, some;
  all.number("one", &one, {}, "Help.");
  all.number("two", &two, {}, "Help.");
  some.take(*all.find("two"));
  EXPECT_EQ(some.find("one"), nullptr);
  some.find("two")->parse("5");
  EXPECT_EQ(two, 5);
}

TEST(Options, WordStandsForANumber) {
  double seconds = 0;
  std::uint64_t steps = 7, buckets = 0;
  OptionTable table;
  table.number_alias("seconds", &seconds, {0, 10, true}, kUnlimited, "Help.");
  table.count_alias("steps", &steps, {.low = 1}, kUnlimited, "Help.");
  table.count_or("buckets", &buckets, {1, 100}, "none", 0, "Help.");
  EXPECT_EQ(table.find("seconds")->default_value, "unlimited");
  EXPECT_EQ(table.find("seconds")->value_name, "NUMBER|unlimited");
  EXPECT_EQ(table.find("seconds")->words, std::vector<std::string>{"unlimited"});
  for (const char* zero : {"unlimited", "0", "0.0"}) {
    seconds = 5;
    table.find("seconds")->parse(zero);
    EXPECT_EQ(seconds, 0) << zero;
  }
  for (const char* zero : {"unlimited", "0"}) {
    steps = 5;
    table.find("steps")->parse(zero);
    EXPECT_EQ(steps, 0U) << zero;
  }
  EXPECT_EQ(table.find("steps")->to_json(), nlohmann::json(0)) << "logs keep the number";
  EXPECT_EQ(table.find("buckets")->to_json(), nlohmann::json("none"));
  EXPECT_THROW(table.find("buckets")->parse("0"), UserError) << "only the word";
  for (const char* bad : {"-1", "11", "unlimite", ""})
    EXPECT_NE(message_of([&] { table.find("seconds")->parse(bad); }).find("or 'unlimited'"),
              std::string::npos)
        << bad;
  steps = 5;
  table.find("steps")->from_json("unlimited");
  EXPECT_EQ(steps, 0U);
  EXPECT_THROW(table.find("steps")->from_json(-1), UserError);
}

// Fields that are empty until somebody says something: the default is only shown.
TEST(Options, EmptyFieldsAreNotWritten) {
  std::optional<double> step;
  std::optional<std::uint64_t> epochs, buckets;
  std::optional<Sample::Order> order;
  double plain = 3;
  OptionTable table;
  table.number("step", {&step, 0.1}, {0, 10}, "Help.");
  table.count_alias("epochs", {&epochs, 50}, {.low = 1}, kUnlimited, "Help.");
  table.count_or("buckets", {&buckets, 0}, {1, 100}, "none", 0, "Help.");
  table.choice("order", Place<Sample::Order>{&order, Sample::Order::file},
               {{"random", Sample::Order::random}, {"file", Sample::Order::file}}, "Help.");
  table.number("plain", {&plain, 7}, {}, "Help.");
  EXPECT_EQ(table.find("step")->default_value, "0.1");
  EXPECT_EQ(table.find("buckets")->default_value, "none");
  EXPECT_EQ(table.find("order")->default_value, "file");
  EXPECT_EQ(table.find("plain")->default_value, "3") << "a field has its own";
  EXPECT_EQ(table.find("epochs")->to_json(), nlohmann::json(50));
  EXPECT_EQ(table.to_json().dump(), R"({"plain":3.0})");
  EXPECT_THROW(table.find("step")->parse("11"), UserError);
  EXPECT_FALSE(step);
  table.find("step")->parse("0.1");
  table.find("epochs")->from_json("unlimited");
  table.find("order")->parse("random");
  EXPECT_EQ(step, 0.1);
  EXPECT_EQ(epochs, 0U);
  EXPECT_EQ(order, Sample::Order::random);
  EXPECT_TRUE(table.find("step")->said());
  EXPECT_FALSE(table.find("buckets")->said());
  EXPECT_EQ(table.to_json().dump(), R"({"step":0.1,"epochs":0,"order":"random","plain":3.0})");
}

TEST(Options, WordStandsForNoNumber) {
  std::optional<double> ridge;
  Place<std::optional<double>> place(&ridge);
  OptionTable table;
  table.number_or("ridge", place, {0, 10}, "auto", "Help.");
  const Option& option = *table.find("ridge");
  EXPECT_EQ(option.default_value, "auto");
  EXPECT_EQ(option.value_name, "NUMBER|auto");
  option.parse("0");
  EXPECT_EQ(ridge, 0.0);
  EXPECT_EQ(option.to_json(), nlohmann::json(0.0));
  for (const char* bad : {"-1", "11", "aut", ""}) {
    EXPECT_NE(message_of([&] { option.parse(bad); }).find("or 'auto'"), std::string::npos) << bad;
    EXPECT_EQ(ridge, 0.0);
  }
  option.parse("auto");
  EXPECT_FALSE(ridge);
  EXPECT_EQ(option.to_json(), nlohmann::json("auto"));
  option.from_json(2.5);
  EXPECT_EQ(ridge, 2.5);
  option.from_json("auto");
  EXPECT_FALSE(ridge);
  EXPECT_THROW(option.from_json(-1), UserError);
}

TEST(Options, SpanIsTwoNumbersOrAWord) {
  CountSpan span;
  OptionTable t;
  t.span_or("span", &span, {1, 20}, "none", "Span.");
  const Option& option = *t.find("span");
  EXPECT_EQ(option.default_value, "none");
  EXPECT_EQ(option.value_name, "MIN-MAX|none");
  for (const char* text : {"3-6", "1-1", "1-20", "none"}) {
    option.parse(text);
    EXPECT_EQ(option.to_json(), text);
    CountSpan other{7, 8};
    OptionTable copy;
    copy.span_or("span", &other, {1, 20}, "none", "Span.");
    copy.find("span")->from_json(option.to_json());
    EXPECT_EQ(other, span);
  }
  span = {3, 6};
  for (const char* text : {"", "3", "6-3", "0-3", "3-21", "-3", "3-", "3-6-9", "a-b", "3 - 6", "all"}) {
    EXPECT_NE(message_of([&] { option.parse(text); }).find("--span"), std::string::npos) << text;
    EXPECT_EQ(span, (CountSpan{3, 6})) << text;
  }
  EXPECT_THROW(option.from_json(3), UserError);
}

TEST(EditDistance, CountsInsertedRemovedAndReplacedBytes) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("step", "steps"), 1U);
}

TEST(Options, FormerNamesAreReadFromJson) {
  bool on = false;
  OptionTable table;
  table.toggle("new", &on, "Help.", {.former_name = "old"});
  table.from_json({{"old", true}});
  EXPECT_TRUE(on);
  EXPECT_EQ(table.find("old"), nullptr);
  EXPECT_EQ(table.find_other_name("old"), table.find("new"));
  EXPECT_EQ(table.find_other_name(""), nullptr);
  EXPECT_EQ(table.to_json().dump(), R"({"new":true})");
}

TEST(Options, HelpStatesUsersAndDefaults) {
  double one = 1;
  OptionTable table;
  table.group("Heading");
  table.number("of-methods", &one, {}, "help.", {.methods = {"umax", "nce"}});
  table.number("of-draws", &one, {}, "help.", {.draws = {"active"}});
  table.number("plain", &one, {0, 5}, "Help.", {.plain_default = "2"});
  EXPECT_EQ(table.find("of-methods")->full_help(), "umax, nce: help. Takes a finite number.");
  EXPECT_EQ(table.find("of-draws")->full_help(), "--draw active: help. Takes a finite number.");
  EXPECT_EQ(table.find("plain")->default_text(), "2 (named methods: 1)");
  EXPECT_EQ(table.find("of-draws")->default_text(), "1");
  EXPECT_EQ(table.find("plain")->group, "Heading");
}

TEST(Options, RoundTripThroughJson) {
  Sample a, b;
  a.step = 0.25, a.epochs = 7, a.intercept = true, a.path = "x", a.order = Sample::Order::file;
  OptionTable ta, tb;
  a.describe(ta);
  b.describe(tb);
  tb.from_json(ta.to_json());
  EXPECT_EQ(ta.to_json(), tb.to_json());
  EXPECT_ANY_THROW(tb.from_json({{"unheard", 1}}));
  EXPECT_ANY_THROW(tb.from_json({{"epochs", 0}}));
  EXPECT_ANY_THROW(tb.from_json({{"order", "both"}}));
}

TEST(Random, DependsOnSeedStreamEpochAndPosition) {
  const CounterRandom a(1, Stream::draw, 3);
  EXPECT_EQ(a.at(5), CounterRandom(1, Stream::draw, 3).at(5));
  EXPECT_NE(a.at(5), a.at(6));
  EXPECT_NE(a.at(5), CounterRandom(2, Stream::draw, 3).at(5));
  EXPECT_NE(a.at(5), CounterRandom(1, Stream::visit, 3).at(5));
  EXPECT_NE(a.at(5), CounterRandom(1, Stream::draw, 4).at(5));
  EXPECT_NE(a.at(5), CounterRandom(1 + (1ULL << 32), Stream::draw, 3).at(5));
}

TEST(Random, WordsMayStartAnywhere) {
  const CounterRandom random(4, Stream::draw, 0);
  RandomWords source(random, 0);
  std::vector<std::uint64_t> words(20);
  for (auto& w : words) w = source.next();
  for (std::uint64_t first = 0; first < 10; ++first) {
    RandomWords part(random, first);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(part.next(), words[first + i]);
  }
}

// Chi-square over 50 cells, 100,000 numbers: exceeds the bound by chance once in a million.
TEST(Random, UniformBelowIsUniform) {
  const CounterRandom random(11, Stream::visit, 0);
  std::vector<double> count(50, 0);
  RandomWords words(random, 0);
  for (int i = 0; i < 100000; ++i) count[uniform_below(words.next(), 50)] += 1;
  double chi = 0;
  for (const double c : count) chi += (c - 2000) * (c - 2000) / 2000;
  EXPECT_LT(chi, 110);
  EXPECT_EQ(uniform_below(~0ULL, 7), 6U);
  EXPECT_EQ(uniform_below(0, 7), 0U);
}

TEST(ParallelFor, CallsEveryChunkOnce) {
  for (const std::size_t threads : {1U, 2U, 5U, 64U}) {
    std::vector<std::atomic<int>> calls(37);
    parallel_for(calls.size(), threads, [&](std::size_t c) { ++calls[c]; });
    for (const auto& c : calls) EXPECT_EQ(c.load(), 1);
  }
}

TEST(ParallelFor, WorksWithFewerThreadsThanRequested) {
  // No stack can be this large, so every new thread is refused.
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::atomic<int> calls{0};
  EXPECT_NO_THROW(parallel_for(20, 4, [&](std::size_t) { ++calls; }));
  EXPECT_EQ(calls, 20);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
}

TEST(ResolveThreads, ZeroMeansAllCores) {
  EXPECT_EQ(resolve_threads(0), available_threads());
  EXPECT_EQ(resolve_threads(7), 7U);
}

TEST(ParallelFor, ThrowsTheFirstException) {
  for (const std::size_t threads : {1U, 3U})
    EXPECT_THROW(parallel_for(10, threads,
                              [](std::size_t c) {
                                if (c == 4) throw UserError("x");
                              }),
                 UserError);
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("truemax-core-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

TEST_F(Files, AtomicFileIsAllOrNothing) {
  const auto path = folder_ / "file";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    file.write_at(0, std::string("new"));
    EXPECT_EQ(read(path), "old");
  }
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(files(), 1U);
  {
    AtomicFile file(path);
    file.write_at(2, std::string("w"));
    file.write_at(0, std::string("ne"));
    file.commit();
  }
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Files, AtomicFileKeepsTheLink) {
  std::ofstream(folder_ / "real") << "old";
  std::filesystem::create_symlink("real", folder_ / "link");
  AtomicFile file(folder_ / "link");
  file.write_at(0, std::string("new"));
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(folder_ / "real"), "new");
}

TEST_F(Files, UnwritablePathsAreRefused) {
  EXPECT_NE(message_of([&] { require_writable(folder_ / "no" / "file", 0, "model"); }).find("mkdir -p"),
            std::string::npos);
  EXPECT_NE(message_of([&] { require_writable(folder_, 0, "model"); }).find("folder"), std::string::npos);
  EXPECT_NE(message_of([&] { require_writable(folder_ / "file", ~0ULL, "model"); }).find("free"),
            std::string::npos);
  EXPECT_NE(message_of([&] { require_writable("/dev/null", 0, "model"); }).find("none"), std::string::npos);
  require_writable(folder_ / "file", 10, "model");
  EXPECT_EQ(files(), 0U);
}

TEST_F(Files, SameFileIsRecognisedByAnyPath) {
  EXPECT_TRUE(same_file(folder_ / "new", folder_ / "." / "new"));
  EXPECT_FALSE(same_file(folder_ / "new", folder_ / "other"));
}

TEST_F(Files, PageCacheOfAControlGroupCountsAsFree) {
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder_ / name) << text; };
  EXPECT_EQ(group_memory(folder_), std::numeric_limits<std::uint64_t>::max()) << "no group";
  write("memory.max", "max\n");
  write("memory.current", "700\n");
  EXPECT_EQ(group_memory(folder_), std::numeric_limits<std::uint64_t>::max()) << "no limit";
  write("memory.max", "1000\n");
  EXPECT_EQ(group_memory(folder_), 300U);
  write("memory.stat", "anon 100\ninactive_file 500\nactive_file 50\n");
  EXPECT_EQ(group_memory(folder_), 800U);
  write("memory.limit_in_bytes", "900\n");
  write("memory.usage_in_bytes", "800\n");
  write("memory.stat", "inactive_file 500\ntotal_inactive_file 600\n");
  EXPECT_EQ(group_memory(folder_), 700U) << "version 1";
}

TEST(InQuotes, ShortensAndEscapes) {
  EXPECT_EQ(in_quotes(std::string_view("a\0b\n", 4)), "'a\\x00b\\x0a'");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(39, 'x') + "\xc3\xa9\xc3\xa9"), "'" + std::string(39, 'x') + "...'");
}

TEST(Printable, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("plain, caf\xc3\xa9"), "plain, caf\xc3\xa9");
  EXPECT_EQ(printable("\x1b[31m\x7f\n"), "\\x1b[31m\\x7f\\x0a");
  EXPECT_EQ(printable("\xc2\x9b\xc2\xa0"), "\\xc2\\x9b\xc2\xa0");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
}

TEST(Options, MessagesContainNoControlCharacters) {
  Sample sample;
  OptionTable table;
  sample.describe(table);
  EXPECT_EQ(message_of([&] { table.find("step")->parse("\x1b[2J"); }).find('\x1b'), std::string::npos);
  EXPECT_EQ(message_of([&] { table.from_json({{"\x1b[2J", 1}}); }).find('\x1b'), std::string::npos);
}

TEST(SizeText, IsReadable) {
  EXPECT_EQ(size_text(17), "17 bytes");
  EXPECT_EQ(size_text(1536), "1.5 KB");
  EXPECT_EQ(size_text(std::uint64_t{300} << 30), "300 GB");
}

TEST(FileError, HasFileLineFindingAndAdvice) {
  EXPECT_STREQ(file_error("a.txt", 7, "found x", "do y").what(), "a.txt:7: found x; do y");
  EXPECT_STREQ(file_error("a.txt", 0, "found x", "do y").what(), "a.txt: found x; do y");
}

TEST(HugeVector, KeepsItsElementsWhenResized) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{5000001}}) {
    HugeVector<std::uint32_t> v(size);
    for (std::size_t i = 0; i < size; ++i) v[i] = static_cast<std::uint32_t>(7 * i);
    reserve_in_place(v, 2 * size + 3);
    EXPECT_GE(v.capacity(), 2 * size + 3);
    ASSERT_EQ(v.size(), size);
    v.push_back(5);
    v.resize(size / 2);
    release_room(v);
    for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], static_cast<std::uint32_t>(7 * i));
    v.resize(size);
    for (std::size_t i = size / 2; i < size; ++i) ASSERT_EQ(v[i], 0U);
  }
}

}  // namespace
}  // namespace truemax

// Misuse of the C interface: whatever is passed, a call returns one of the statuses, says why if it is not
// TMX_OK, releases the caller's arrays once, and leaves the handles usable.
//
// Not generated, because a call cannot know: arrays that are shorter than promised, freed handles, and texts
// without an end.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "api/test_support.hpp"
#include "data/generate.hpp"

namespace truemax {
namespace {

constexpr int kMisuses = 2000;
constexpr std::uint64_t kRows = 20, kColumns = 40;

// Rows whose numbers have 8 bytes each, so that any claim about their types stays inside the arrays.
struct Arrays {
  std::vector<std::uint64_t> offsets, indices, values;
  std::vector<std::uint64_t> label_begin;
  std::vector<std::int32_t> label;
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::vector<double> counts, name_weights, weights;
  tmx_rows view{};
  int released = 0;

  explicit Arrays(const CRows& from) {
    view.size = sizeof view;
    view.rows = kRows, view.columns = from.columns;
    const auto numbers = static_cast<std::uint64_t>(from.offsets[kRows]);
    offsets.resize(kRows + 1), indices.resize(numbers), values.resize(numbers);
    view.offset_type = TMX_INT64, view.index_type = TMX_INT32, view.value_type = TMX_FLOAT32;
    for (std::uint64_t r = 0; r <= kRows; ++r) set_offset(r, from.offsets[r]);
    for (std::uint64_t j = 0; j < numbers; ++j) {
      set_index(j, from.indices[j]);
      set_value(j, static_cast<double>(from.values[j]));
    }
    view.numbers = numbers;
    view.offsets = offsets.data(), view.indices = indices.data(), view.values = values.data();
    for (std::uint64_t r = 0; r <= kRows; ++r) label_begin.push_back(r);
    label.assign(from.labels.begin(), from.labels.begin() + kRows);
    label.resize(2 * kRows);
    names = from.names;
    for (const std::string& name : names) pointers.push_back(name.c_str());
    view.label = label.data(), view.names = pointers.data(), view.name_count = names.size();
    counts.assign(names.size(), 1.0), name_weights = counts;
    weights.assign(kRows, 1.0);
    view.release = [](void* count) { ++*static_cast<int*>(count); };
    view.owner = &released;
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  void set_offset(std::uint64_t i, std::int64_t to) { set_whole(offsets, view.offset_type, i, to); }
  void set_index(std::uint64_t i, std::int64_t to) { set_whole(indices, view.index_type, i, to); }
  void set_value(std::uint64_t i, double to) {
    if (view.value_type == TMX_FLOAT32)
      put(values, i, static_cast<float>(to));
    else
      put(values, i, to);
  }
  // Dense, row by row, with the numbers of the sparse rows in any order.
  void make_dense(std::uint64_t rows, std::uint64_t columns) {
    view.offsets = nullptr, view.rows = rows, view.columns = columns;
    values.resize(rows * columns + 1);
    view.values = values.data();
    view.column_stride = 4, view.row_stride = static_cast<std::int64_t>(4 * columns);
  }

 private:
  template <class T>
  static void put(std::vector<std::uint64_t>& to, std::uint64_t i, T value) {
    std::memcpy(reinterpret_cast<char*>(to.data()) + i * sizeof(T), &value, sizeof(T));
  }
  static void set_whole(std::vector<std::uint64_t>& to, tmx_type type, std::uint64_t i, std::int64_t value) {
    if (type == TMX_INT32)
      put(to, i, static_cast<std::int32_t>(value));
    else
      put(to, i, value);
  }
};

const double kBadReals[] = {std::nan(""), -std::nan(""), INFINITY, -INFINITY, 1e300, -1e300,
                            1e38,         -1e38,         1e-45,    5e-324,    -0.0,  0.0,
                            -1,           1e-300,        3.5e38,   -1.0e-20};
constexpr std::int64_t kBadWholes[] = {-1,
                                       0,
                                       1,
                                       19,
                                       39,
                                       40,
                                       41,
                                       1000,
                                       std::numeric_limits<std::int32_t>::max(),
                                       std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min()};
const char* const kBadNames[] = {nullptr, "",         "\xff\xfe",         "\xc3\x28", "\xed\xa0\x80",
                                 "a\nb",  "\"\\\x01", "\xf0\x9f\x98\x80", "0",        "1",
                                 "nan",   " "};
const char* const kBadTexts[] = {
    "",     "-1",  "nan",     "inf",    "1e400",     "auto",  "none",     "\xff\xfe",
    "on",   "0",   "prox",    "umax",   "scent",     "exact", "blocks",   "1K",
    "bag",  "all", "complex", "1e-300", "1e15",      "off",   "skipgram", "9999999999999999999999",
    "0.5",  "1",   "-0",      "2",      "unlimited", "l2",    "uniform",  "\n",
    "0x10", "1e3", "linear",  "cbow",   "sampled",   "first"};

class CMisuse : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "truemax-misuse-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    GenerateOptions generate;
    generate.format = Format::libsvm;
    generate.rows = 60, generate.features = kColumns, generate.classes = 12;
    generate_file(generate, Part::train, 1, path("g.txt"));
    std::ofstream(path("triples.tsv")) << "a\tr\tb\nb\tr\tc\nc\ts\ta\na\ts\tc\nb\ts\td\nd\tr\ta\n";
    std::ofstream(path("words.txt")) << "the cat sat on the mat\nthe dog sat on the log\na cat and a dog\n";
    std::ofstream(path("bad.txt")) << "1 2:x\n";
    std::ofstream(path("empty"));
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    good_ = read_libsvm(path("g.txt"), kColumns);
    const tmx_rows rows = good_.view();
    ASSERT_EQ(tmx_data_from_rows(&rows, nullptr, 0, &data_), TMX_OK) << tmx_message();
    train(data_, {{"method", "implicit"}, {"epochs", "1"}, {"step", "1"}, {"ridge", "0"}}, &model_);
    train(data_, {{"hidden", "3"}, {"steps", "5"}, {"step", "0.1"}, {"ridge", "0"}}, &learnt_);
    tmx_rows narrow = rows;
    narrow.offsets = nullptr;
    narrow.columns = 3, narrow.row_stride = 12, narrow.column_stride = 4, narrow.rows = kRows;
    ASSERT_EQ(tmx_data_from_rows(&narrow, nullptr, 0, &other_), TMX_OK) << tmx_message();
    train(other_, {{"method", "prox"}, {"epochs", "1"}}, &narrow_);
    const tmx_option triples[] = {{"format", "triples"}};
    ASSERT_EQ(tmx_data_read(path("triples.tsv").c_str(), triples, 1, &triples_), TMX_OK) << tmx_message();
    train(triples_, {{"hidden", "4"}, {"epochs", "1"}, {"step", "0.1"}, {"ridge", "0"}}, &links_);
    const tmx_option words[] = {{"format", "text"}, {"encoder", "cbow"}, {"min-count", "1"}};
    ASSERT_EQ(tmx_data_read(path("words.txt").c_str(), words, 3, &words_), TMX_OK) << tmx_message();
    train(words_, {{"hidden", "4"}, {"epochs", "1"}, {"step", "0.1"}, {"ridge", "0"}}, &language_);
    expected_ = probabilities();
  }

  static void train(const tmx_data* data, std::vector<tmx_option> options, tmx_model** model) {
    options.push_back({"threads", "1"});
    OwnedRun run;
    ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options.data(), options.size(), &run), TMX_OK)
        << tmx_message();
    ASSERT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_OK) << tmx_message();
    ASSERT_EQ(tmx_run_model(run, model), TMX_OK) << tmx_message();
  }

  // A correct use of the handles.
  std::vector<double> probabilities() const {
    std::vector<double> p(good_.labels.size() * good_.names.size());
    EXPECT_EQ(tmx_predict(model_, data_, TMX_PROBABILITY, 1, p.data(), p.size()), TMX_OK) << tmx_message();
    return p;
  }

  static std::string path(const std::string& name) { return folder_ + "/" + name; }

  // Chances of the present misuse.
  std::uint64_t any(std::uint64_t below) { return random_() % below; }
  bool one_in(std::uint64_t n) { return any(n) == 0; }
  template <class List>
  auto any_of(const List& list) {
    return list[any(std::size(list))];
  }
  template <class Handle>
  Handle* sometimes_null(Handle* handle) {
    return one_in(12) ? nullptr : handle;
  }
  const tmx_data* any_data() {
    const tmx_data* const all[] = {data_, data_, data_, other_, triples_, words_, nullptr};
    return any_of(all);
  }
  const tmx_model* any_model() {
    const tmx_model* const all[] = {model_, model_, model_, learnt_, narrow_, links_, language_, nullptr};
    return any_of(all);
  }

  tmx_status checked(tmx_status status) {
    const std::string said = tmx_message();
    ++statuses_[status];
    const bool known =
        status == TMX_OK || status == TMX_BAD_INPUT || status == TMX_DIVERGED || status == TMX_NO_MEMORY;
    EXPECT_TRUE(known) << "status " << status << ": " << said;
    EXPECT_EQ(status == TMX_OK, said.empty()) << said;
    return status;
  }
  void json_checked(tmx_status status, const char* const& json) {
    if (checked(status) != TMX_OK) return;
    EXPECT_TRUE(nlohmann::json::accept(json)) << json;
  }

  void spoil(Arrays& a);
  std::vector<tmx_option> some_options();
  void rows_misuse();
  void use(const tmx_data* made, std::uint64_t names);
  void run_misuse();
  void model_misuse();
  void predict_misuse();
  void file_misuse();
  void misuse(int seed);

  static inline std::string folder_;
  CRows good_;
  OwnedData data_, other_, triples_, words_;
  OwnedModel model_, learnt_, narrow_, links_, language_;
  std::vector<double> expected_;
  std::vector<std::string> option_names_;
  std::mt19937 random_;
  std::map<int, int> statuses_;
};

// Makes the rows wrong in one way.
void CMisuse::spoil(Arrays& a) {
  tmx_rows& v = a.view;
  const std::uint64_t numbers = a.values.size();
  switch (any(24)) {
    case 0:
      v.size = one_in(2) ? any(400) : any_of(kBadWholes) < 0 ? ~std::size_t{0} : 0;
      break;
    case 1:
      v.columns = any(2) * any(kColumns + 1);
      break;
    case 2:
      v.columns = static_cast<std::uint64_t>(any_of(kBadWholes));
      break;
    case 3:
      a.set_value(any(numbers), any_of(kBadReals));
      break;
    case 4:
      a.set_index(any(numbers), any_of(kBadWholes));
      break;
    case 5:
      a.set_offset(any(kRows + 1), any_of(kBadWholes));
      break;
    case 6:
      a.label[any(kRows)] = static_cast<std::int32_t>(any_of(kBadWholes));
      break;
    case 7:
      // No more than there are labels: how many, the call cannot know.
      v.label_begin = a.label_begin.data();
      for (std::uint64_t& at : a.label_begin) at = any(2 * kRows + 1);
      if (one_in(2)) a.label_begin[0] = 0;
      if (one_in(2)) std::sort(a.label_begin.begin(), a.label_begin.end());
      break;
    case 8:
      v.names = nullptr;
      break;
    case 9:
      v.name_count = any(v.name_count + 1);
      break;
    case 10:
      v.offset_type = static_cast<tmx_type>(any(4));
      break;
    case 11:
      v.index_type = static_cast<tmx_type>(any(4));
      break;
    case 12:
      v.value_type = static_cast<tmx_type>(any(4));
      break;
    case 13:
      v.numbers = any(numbers + 1);
      break;
    case 14:
      a.weights[any(kRows)] = any_of(kBadReals);
      v.weights = a.weights.data();
      break;
    case 15:
      a.weights.assign(kRows, any_of(kBadReals));
      v.weights = a.weights.data();
      break;
    case 16:
      a.name_weights[any(a.names.size())] = any_of(kBadReals);
      v.name_weights = a.name_weights.data();
      break;
    case 17:
      a.counts[any(a.names.size())] = any_of(kBadReals);
      v.name_counts = a.counts.data();
      break;
    case 18:
      v.label = nullptr;
      break;
    case 19:
      v.rows = one_in(2) ? 0 : any(kRows + 1);
      break;
    case 20: {
      const void** const arrays[] = {&v.indices, &v.values, &v.offsets};
      *any_of(arrays) = nullptr;
      if (v.offsets == nullptr && v.values != nullptr) a.make_dense(kRows, 3);
      break;
    }
    case 21:
      // Strides that leave the array, of rows and columns that are never reached.
      a.make_dense(any(2), 1);
      v.row_stride = any_of(kBadWholes), v.column_stride = any_of(kBadWholes);
      break;
    case 22:
      a.make_dense(any(kRows), 1 + any(3));
      v.row_stride = 4 * static_cast<std::int64_t>(any(3)), v.column_stride = 0;
      break;
    default:
      a.pointers[any(a.pointers.size())] = any_of(kBadNames);
      break;
  }
}

std::vector<tmx_option> CMisuse::some_options() {
  std::vector<tmx_option> options;
  for (std::uint64_t o = any(4); o > 0; --o)
    options.push_back({option_names_[any(option_names_.size())].c_str(), any_of(kBadTexts)});
  if (one_in(12)) options.push_back({one_in(2) ? nullptr : "step", nullptr});
  if (one_in(12)) options.push_back({any_of(kBadTexts), "1"});
  return options;
}

// Uses data that may be of another kind than the model.
void CMisuse::use(const tmx_data* made, std::uint64_t names) {
  const char* json = nullptr;
  json_checked(tmx_data_json(made, &json), json);
  std::vector<double> out(kRows * names);
  checked(tmx_predict(any_model(), made, static_cast<tmx_value>(any(4)), any(3),
                      one_in(6) ? nullptr : out.data(), one_in(2) ? any(out.size()) : out.size()));
  json_checked(tmx_evaluate(any_model(), made, 1, &json), json);
}

void CMisuse::rows_misuse() {
  Arrays a(good_);
  for (std::uint64_t wrong = 1 + any(3); wrong > 0; --wrong) spoil(a);
  const std::vector<tmx_option> options = some_options();
  const tmx_option* const list = one_in(15) ? nullptr : options.data();
  const std::size_t count = one_in(2) ? 0 : options.size();
  const tmx_rows* const rows = one_in(20) ? nullptr : &a.view;
  tmx_data* made = nullptr;
  tmx_data** const out = one_in(20) ? nullptr : &made;
  tmx_status status = TMX_OK;
  switch (any(3)) {
    case 0:
      status = tmx_data_from_rows(rows, list, count, out);
      break;
    case 1:
      status = tmx_data_from_rows_for(any_model(), static_cast<tmx_purpose>(any(3)), rows, list, count, out);
      break;
    default:
      status = tmx_data_from_rows_beside(any_data(), rows, list, count, out);
      break;
  }
  checked(status);
  ASSERT_EQ(status == TMX_OK, made != nullptr);
  if (made != nullptr) {
    use(made, a.names.size());
    OwnedRun run;
    const tmx_option quick[] = {{"steps", "3"}, {"threads", "1"}, {"method", "implicit"}};
    if (checked(tmx_run_create(made, one_in(2) ? made : nullptr, one_in(3) ? any_model() : nullptr, quick, 3,
                               &run)) == TMX_OK) {
      if (one_in(2)) tmx_data_free(std::exchange(made, nullptr));
      checked(tmx_run_train(run, nullptr, nullptr));
    }
    tmx_data_free(made);
  }
  // Of a struct of another size nothing is known.
  EXPECT_EQ(a.released, rows != nullptr && rows->size == sizeof(tmx_rows) ? 1 : 0);
}

// Stops at once, after it has called what may not be called now.
int misuse_and_stop(const char* /*json*/, void* context) {
  auto* const run = static_cast<tmx_run*>(context);
  const char* json = nullptr;
  tmx_model* model = nullptr;
  EXPECT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_BAD_INPUT);
  EXPECT_EQ(tmx_run_json(run, &json), TMX_BAD_INPUT);
  EXPECT_EQ(tmx_run_model(run, &model), TMX_BAD_INPUT);
  return -1;
}

void CMisuse::run_misuse() {
  std::vector<tmx_option> options = some_options();
  options.push_back({"steps", "3"});
  if (one_in(2)) options.push_back({"threads", "1"});
  OwnedRun run;
  const char* json = nullptr;
  if (checked(tmx_run_create(any_data(), one_in(3) ? any_data() : nullptr, one_in(3) ? any_model() : nullptr,
                             one_in(15) ? nullptr : options.data(), options.size(),
                             one_in(15) ? nullptr : &run)) != TMX_OK)
    return;
  OwnedModel early;
  EXPECT_EQ(checked(tmx_run_model(run, &early)), TMX_BAD_INPUT);
  EXPECT_EQ(checked(tmx_run_json(run, &json)), TMX_BAD_INPUT);
  json_checked(tmx_run_plan(run, &json), json);
  checked(tmx_run_plan(one_in(2) ? run.handle : nullptr, nullptr));
  if (one_in(2)) tmx_run_stop(run);
  if (one_in(8)) return;  // freed without training
  checked(tmx_run_train(run, one_in(2) ? nullptr : misuse_and_stop, run.handle));
  EXPECT_EQ(checked(tmx_run_train(run, nullptr, nullptr)), TMX_BAD_INPUT);
  tmx_run_stop(run);
  json_checked(tmx_run_json(run, &json), json);
  checked(tmx_run_json(run, nullptr));
  OwnedModel model;
  if (checked(tmx_run_model(run, &model)) != TMX_OK) return;
  tmx_run_free(run.handle);
  run.handle = nullptr;
  std::uint64_t count = 0;
  ASSERT_EQ(checked(tmx_model_tensor(model, "weight", nullptr, &count)), TMX_OK);
  std::vector<float> weight(count);
  ASSERT_EQ(checked(tmx_model_tensor(model, "weight", weight.data(), &count)), TMX_OK);
  for (const float w : weight) ASSERT_TRUE(std::isfinite(w));
}

void CMisuse::model_misuse() {
  const char* const tensors[] = {"weight", "intercept", "embedding", "context", "", "Weight", nullptr};
  std::uint64_t count = any(600);
  std::vector<float> out(count + 1);
  checked(tmx_model_tensor(any_model(), any_of(tensors), one_in(2) ? nullptr : out.data(),
                           one_in(10) ? nullptr : &count));
  std::uint64_t classes = 0;
  checked(tmx_model_shape(any_model(), one_in(2) ? nullptr : &classes, nullptr, nullptr));
  const char* json = nullptr;
  json_checked(tmx_model_metadata(any_model(), &json), json);
  checked(tmx_model_metadata(any_model(), nullptr));
  checked(tmx_options_json(one_in(2) ? nullptr : &json));
  checked(tmx_data_json(any_data(), one_in(2) ? nullptr : &json));
  const std::string there = path("saved.safetensors"), nowhere = path("no/such/folder/m"), folder = path("");
  const char* const paths[] = {there.c_str(), nowhere.c_str(), folder.c_str(), "", nullptr};
  checked(tmx_model_save(any_model(), any_of(paths)));
}

void CMisuse::predict_misuse() {
  constexpr std::uint64_t kMost = 900;
  const std::uint64_t huge[] = {kMost, kMost, kMost, 0, 1, any(kMost)};
  const std::size_t threads[] = {0, 1, 2, 1, 1, 5000, ~std::size_t{0}, std::size_t{1} << 63U};
  std::vector<std::int32_t> classes(kMost);
  std::vector<double> p(kMost);
  const std::uint64_t tops[] = {0, 1, 2, 3, 12, 13, 1000, ~std::uint64_t{0}, std::uint64_t{1} << 62U};
  checked(tmx_predict_top(any_model(), any_data(), any_of(tops), any_of(threads),
                          sometimes_null(classes.data()), sometimes_null(p.data()), any_of(huge)));
  checked(tmx_predict(any_model(), any_data(), static_cast<tmx_value>(any(4)), any_of(threads),
                      sometimes_null(p.data()), any_of(huge)));
  const char* json = nullptr;
  json_checked(tmx_evaluate(any_model(), any_data(), any_of(threads), &json), json);
  checked(tmx_evaluate(any_model(), any_data(), 1, nullptr));
  std::uint64_t count = any_of(huge);
  checked(tmx_ranks(any_model(), any_data(), any_of(threads), one_in(3) ? nullptr : p.data(),
                    one_in(10) ? nullptr : &count));
}

void CMisuse::file_misuse() {
  std::string content(any(200), '\0');
  for (char& c : content) c = one_in(3) ? static_cast<char>(random_()) : any_of(std::string("0 1:,\n{}\"a."));
  if (one_in(2)) {  // a model file with bytes that changed, or with its end cut off
    EXPECT_EQ(tmx_model_save(model_, path("broken").c_str()), TMX_OK) << tmx_message();
    std::ifstream in(path("broken"), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
    for (std::uint64_t i = any(4); i > 0; --i) content[any(content.size())] = static_cast<char>(random_());
    if (one_in(2)) content.resize(any(content.size()));
  }
  std::ofstream(path("broken"), std::ios::binary) << content;
  const std::vector<tmx_option> options = some_options();
  const std::string files[] = {
      path("broken"),  path("broken"), path("broken"),      path("absent"),    path(""), path("empty"),
      path("bad.txt"), path("g.txt"),  path("triples.tsv"), path("words.txt"), ""};
  const std::string file = any_of(files);
  const char* const name = sometimes_null(file.c_str());
  OwnedModel loaded;
  OwnedData read, for_model, beside;
  const std::size_t count = one_in(2) ? 0 : options.size();
  if (checked(tmx_model_load(name, options.data(), count, &loaded)) == TMX_OK) {
    std::vector<double> p(expected_.size());
    checked(tmx_predict(loaded, data_, TMX_PROBABILITY, 1, p.data(), p.size()));
  }
  if (checked(tmx_data_read(name, options.data(), count, &read)) == TMX_OK) use(read, good_.names.size());
  if (checked(tmx_data_read_for(any_model(), static_cast<tmx_purpose>(any(3)), name, options.data(), count,
                                &for_model)) == TMX_OK) {
    std::uint64_t ranks = 0;
    checked(tmx_ranks(any_model(), for_model, 1, nullptr, &ranks));
    const char* json = nullptr;
    json_checked(tmx_evaluate(any_model(), for_model, 1, &json), json);
  }
  checked(tmx_data_read_beside(any_data(), name, options.data(), count, &beside));
}

void CMisuse::misuse(int seed) {
  random_.seed(static_cast<unsigned>(seed));
  switch (any(8)) {
    case 0:
    case 1:
    case 2:
      return rows_misuse();
    case 3:
    case 4:
      return run_misuse();
    case 5:
      return model_misuse();
    case 6:
      return predict_misuse();
    default:
      return file_misuse();
  }
}

TEST_F(CMisuse, IsRefusedWithAMessage) {
  const char* json = nullptr;
  ASSERT_EQ(tmx_options_json(&json), TMX_OK);
  for (const auto& option : nlohmann::json::parse(json)) option_names_.push_back(option["name"]);
  for (const char* name : {"lr", "", "Step", "--step", "\xff"}) option_names_.emplace_back(name);
  const char* const one = std::getenv("TRUEMAX_MISUSE");  // replays one
  const int first = one != nullptr ? std::atoi(one) : 0, last = one != nullptr ? first + 1 : kMisuses;
  for (int seed = first; seed < last; ++seed) {
    SCOPED_TRACE(fmt::format("TRUEMAX_MISUSE={} api_test --gtest_filter=CMisuse.*", seed));
    if (std::getenv("TRUEMAX_MISUSE_SAYS") != nullptr) fmt::print(stderr, "misuse {}\n", seed);
    misuse(seed);
    ASSERT_EQ(probabilities(), expected_) << "handles are not what they were";
    if (HasFatalFailure()) break;
  }
  if (one != nullptr) return;
  EXPECT_GT(statuses_[TMX_BAD_INPUT], 1000);
  EXPECT_GT(statuses_[TMX_OK], 500) << "some of it must be right, or only the first checks were tried";
}

TEST_F(CMisuse, HandlesAreFreedInAnyOrderAndNullIsFree) {
  tmx_data_free(nullptr), tmx_model_free(nullptr), tmx_run_free(nullptr), tmx_run_stop(nullptr);
  Arrays a(good_);
  a.view.name_counts = a.counts.data();
  tmx_data* data = nullptr;
  tmx_run* run = nullptr;
  ASSERT_EQ(tmx_data_from_rows(&a.view, nullptr, 0, &data), TMX_OK) << tmx_message();
  const tmx_option quick[] = {{"steps", "3"}, {"step", "1"}, {"threads", "1"}};
  ASSERT_EQ(tmx_run_create(data, data, model_, quick, 3, &run), TMX_OK) << tmx_message();
  tmx_data_free(data);
  tmx_model_free(std::exchange(model_.handle, nullptr));
  ASSERT_EQ(tmx_run_train(run, nullptr, nullptr), TMX_OK) << tmx_message();
  ASSERT_EQ(tmx_run_model(run, &model_.handle), TMX_OK);
  tmx_run_free(run);
  std::uint64_t classes = 0;
  EXPECT_EQ(tmx_model_shape(model_, &classes, nullptr, nullptr), TMX_OK);
  EXPECT_EQ(classes, good_.names.size());
}

// Overwrites the arrays of a run from its first event on.
int overwrite(const char* /*json*/, void* context) {
  auto& [arrays, value] = *static_cast<std::pair<Arrays*, float>*>(context);
  Arrays& a = *arrays;
  auto* const numbers = reinterpret_cast<float*>(a.values.data());
  std::fill(numbers, numbers + a.view.numbers, value);
  std::fill(a.indices.begin(), a.indices.end(), ~0ULL);
  std::fill(a.offsets.begin(), a.offsets.end(), 1ULL << 40U);
  std::fill(a.label.begin(), a.label.end(), -7);
  std::fill(a.weights.begin(), a.weights.end(), -1);
  return 0;
}

TEST_F(CMisuse, ArraysThatChangeDuringARunGiveAFiniteModelOrAreReported) {
  for (const float value : {std::nanf(""), INFINITY, -INFINITY, 3e38F, 1e-45F, 0.0F})
    for (const std::vector<tmx_option>& options :
         {std::vector<tmx_option>{},
          {{"method", "implicit"}, {"epochs", "4"}, {"eval-every", "1"}},
          {{"method", "prox"}, {"epochs", "4"}, {"eval-every", "1"}, {"ridge", "0.1"}},
          {{"method", "exact"}, {"epochs", "4"}, {"eval-every", "1"}, {"step", "1"}},
          {{"method", "umax"}, {"epochs", "4"}, {"eval-every", "1"}, {"step", "1"}, {"rows-per-step", "4"}},
          {{"draw", "blocks"}, {"method", "scent"}, {"step", "1"}, {"epochs", "4"}, {"eval-every", "1"}},
          {{"hidden", "4"}, {"epochs", "4"}, {"eval-every", "1"}, {"step", "0.1"}, {"ridge", "0"}}}) {
      SCOPED_TRACE(fmt::format("{} {}", value, options.empty() ? "auto" : options[0].value));
      Arrays a(good_);
      OwnedData data;
      OwnedRun run;
      OwnedModel model;
      const char* json = nullptr;
      ASSERT_EQ(tmx_data_from_rows(&a.view, nullptr, 0, &data), TMX_OK) << tmx_message();
      ASSERT_EQ(tmx_data_json(data, &json), TMX_OK);
      ASSERT_EQ(nlohmann::json::parse(json)["in_place"], true);
      ASSERT_EQ(tmx_run_create(data, nullptr, nullptr, options.data(), options.size(), &run), TMX_OK)
          << tmx_message();
      std::pair<Arrays*, float> context{&a, value};
      if (checked(tmx_run_train(run, overwrite, &context)) == TMX_OK) {
        ASSERT_EQ(tmx_run_model(run, &model), TMX_OK);
        for (const char* name : {"weight", "intercept", "embedding"}) {
          std::uint64_t count = 0;
          ASSERT_EQ(tmx_model_tensor(model, name, nullptr, &count), TMX_OK);
          std::vector<float> tensor(count);
          ASSERT_EQ(tmx_model_tensor(model, name, tensor.data(), &count), TMX_OK);
          for (const float w : tensor) ASSERT_TRUE(std::isfinite(w)) << name;
        }
      }
      // Rows with such values may also be given to a model.
      std::vector<std::int32_t> top(kRows * 2);
      std::vector<double> p(kRows * good_.names.size());
      checked(tmx_predict_top(model_, data, 2, 1, top.data(), p.data(), top.size()));
      checked(tmx_predict(model_, data, TMX_PROBABILITY, 1, p.data(), p.size()));
      checked(tmx_predict_top(learnt_, data, 2, 1, top.data(), p.data(), top.size()));
      json_checked(tmx_evaluate(model_, data, 1, &json), json);
      json_checked(tmx_data_json(data, &json), json);
    }
}

}  // namespace
}  // namespace truemax

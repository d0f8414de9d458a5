// Data of the interfaces: files and arrays, for training and for a model.
#include <fmt/format.h>

#include <algorithm>

#include "api/inside.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/row_encoder.hpp"
#include "data/load.hpp"
#include "data/row_stream.hpp"
#include "data/triples.hpp"
#include "data/weight_files.hpp"
#include "model/use.hpp"
#include "train/options.hpp"
#include "weights/all_scores.hpp"

namespace truemax::api {
namespace {

// What test rows share with the training data or the model.
struct Frame {
  const PreprocessOptions& preprocess;
  const std::shared_ptr<const ClassList>& classes;
  const std::shared_ptr<const FeatureSpace>& space;
};

// The options of rows that are read for existing classes and features.
struct ReadMore {
  UseOptions use;
  std::string class_weights;
  std::vector<std::string> filters;

  ReadMore(const OptionList& options, Purpose purpose, bool triples) {
    OptionTable table;
    use.describe(table);
    if (purpose == Purpose::evaluation) {
      describe_row_weights(table, &use.read.row_weights);
      describe_class_weights(table, &class_weights);
      if (triples)
        table.list("filter", "FILE", &filters,
                   "A file of further true triples, which do not count for ranks.");
    }
    set_options(table, options);
  }
};

std::shared_ptr<Data::Inside> read_more(const std::string& path, const ReadMore& more, const Frame& frame,
                                        const ReadOptions& read, Purpose purpose) {
  auto inside = std::make_shared<Data::Inside>();
  const UseOptions& use = more.use;
  std::vector<std::string> files = more.filters;
  files.push_back(path);
  require_standard_input_once(files, {use.read.row_weights, class_weight_file(more.class_weights)});
  inside->row_weights = use.read.row_weights;
  inside->class_weights = more.class_weights;
  inside->preprocess = frame.preprocess;
  const std::size_t threads = use.thread_count();
  if (purpose == Purpose::prediction) {
    StreamOptions stream;
    stream.threads = threads;
    stream.labels_required = false;
    RawRows rows =
        RowStream(path, read, stream, inside->notes).next(use.max_rows == 0 ? ~0ULL : use.max_rows);
    inside->data =
        make_prediction_rows(std::move(rows), frame.preprocess, frame.classes, frame.space, use.drops());
    return inside;
  }
  RawRows rows = read_rows(path, read, use.max_rows, threads, inside->notes);
  std::shared_ptr<const RankingTask> ranking;
  if (frame.space->of_triples() && rows.format == Format::triples) {
    RankingBuilder builder(frame.classes, *frame.space, read.memory);
    builder.add_test(rows);
    ReadOptions how = read;
    how.row_weights.clear();
    how.split.clear();
    for (const std::string& file : more.filters)
      builder.add_known(read_rows(file, how, 0, threads, inside->notes));
    ranking = builder.finish();
  }
  inside->data = make_test_set(std::move(rows), frame.preprocess, frame.classes, frame.space, use.drops(),
                               make_class_weights(more.class_weights, *frame.classes, read.memory));
  inside->data.ranking = std::move(ranking);
  return inside;
}

// Nothing changes the values of the rows.
bool keeps_values(const PreprocessOptions& o, std::uint64_t columns) {
  return o.normalize == Normalize::none && o.hash_features == 0 &&
         (o.max_features == 0 || o.max_features >= columns);
}

void require_no_words(const PreprocessOptions& options) {
  if (options.ngrams().any())
    throw UserError(options.ngrams().option() + ": the rows are arrays and have no words; leave it out");
}

std::shared_ptr<Data::Inside> more_of_arrays(const ArrayRows& arrays, const OptionList& options,
                                             const Frame& frame, Purpose purpose) {
  std::uint64_t memory_limit = 0;
  OptionTable table;
  describe_memory_limit(table, &memory_limit);
  set_options(table, options);
  if (frame.space->of_words() || frame.space->of_triples() || reads_words(frame.space->encoder))
    throw UserError("the model was trained on words or names, and the rows are numbers; give a file");
  ArrayRows rows = arrays;
  if (purpose == Purpose::prediction) {
    rows.label = nullptr;
    rows.label_begin = nullptr;
    rows.weights = nullptr;
  } else if (rows.label == nullptr && rows.rows > 0) {
    throw UserError("the rows: there are no labels; give them, or ask for a prediction");
  }
  rows.name_counts.clear();
  rows.name_weights.clear();
  auto inside = std::make_shared<Data::Inside>();
  inside->preprocess = frame.preprocess;
  RawRows raw = rows_of_arrays(rows, keeps_values(frame.preprocess, rows.columns),
                               std::make_shared<MemoryBudget>(memory_limit));
  inside->in_place = raw.in_place();
  inside->data =
      purpose == Purpose::prediction
          ? make_prediction_rows(std::move(raw), frame.preprocess, frame.classes, frame.space, false)
          : make_test_set(std::move(raw), frame.preprocess, frame.classes, frame.space, false);
  return inside;
}

Frame frame_of(const truemax::Model& m) {
  return {m.preprocess, m.classes, m.space};
}
Frame frame_of(const Data::Inside& d) {
  return {d.preprocess, d.data.classes, d.data.space};
}

}  // namespace

void set_options(const OptionTable& table, const OptionList& options) {
  for (const auto& [name, value] : options) {
    const Option* option = table.find(name);
    if (const Option* now = table.find_other_name(name))
      throw UserError("the option '" + name + "' is called '" + now->name + "' here; use that name");
    if (option == nullptr)
      throw UserError("there is no option '" + name + "' here; docs/options.md lists them");
    option->parse(value);
  }
}

std::shared_ptr<Data::Inside> read_training_data(const std::string& path, const OptionList& options) {
  ReadOptions read;
  auto inside = std::make_shared<Data::Inside>();
  std::uint64_t max_rows = 0, threads = 0, memory_limit = 0;
  OptionTable table;
  read.describe(table);
  describe_row_weights(table, &read.row_weights);
  describe_class_weights(table, &inside->class_weights);
  inside->preprocess.describe(table);
  EncoderKind encoder = EncoderKind::automatic;
  describe_encoder(table, &encoder);
  describe_max_rows(table, &max_rows);
  describe_threads(table, &threads);
  describe_memory_limit(table, &memory_limit);
  set_options(table, options);
  require_standard_input_once({path}, {read.row_weights, class_weight_file(inside->class_weights)});
  inside->row_weights = read.row_weights;
  inside->preprocess.check();
  if (reads_words(encoder)) inside->preprocess.encoder = encoder;
  read.memory = std::make_shared<MemoryBudget>(memory_limit);
  read.max_features = inside->preprocess.max_features;
  read.ngrams = inside->preprocess.ngrams();
  RawRows rows = read_rows(path, read, max_rows, resolve_threads(threads), inside->notes);
  inside->data = make_training_set(std::move(rows), inside->preprocess, 0, inside->class_weights);
  return inside;
}

std::shared_ptr<Data::Inside> training_data_of(const ArrayRows& arrays, const OptionList& options) {
  auto inside = std::make_shared<Data::Inside>();
  std::uint64_t memory_limit = 0;
  OptionTable table;
  inside->preprocess.describe(table);
  describe_memory_limit(table, &memory_limit);
  set_options(table, options);
  inside->preprocess.check();
  require_no_words(inside->preprocess);
  if (arrays.label == nullptr && arrays.rows > 0)
    throw UserError("the rows: there are no labels to train on; give them");
  RawRows raw = rows_of_arrays(arrays, keeps_values(inside->preprocess, arrays.columns),
                               std::make_shared<MemoryBudget>(memory_limit));
  inside->in_place = raw.in_place();
  inside->data = make_training_set(std::move(raw), inside->preprocess, 0, "");
  return inside;
}

std::shared_ptr<Data::Inside> read_for_model(const truemax::Model& model, Purpose purpose,
                                             const std::string& path, const OptionList& options) {
  const ReadMore more(options, purpose, model.space->of_triples());
  return read_more(path, more, frame_of(model), more.use.read_for(model), purpose);
}

std::shared_ptr<Data::Inside> rows_for_model(const truemax::Model& model, Purpose purpose,
                                             const ArrayRows& rows, const OptionList& options) {
  return more_of_arrays(rows, options, frame_of(model), purpose);
}

std::shared_ptr<Data::Inside> read_beside(const Data::Inside& train, const std::string& path,
                                          const OptionList& options) {
  const ReadMore more(options, Purpose::evaluation, train.data.space->of_triples());
  ReadOptions read = more.use.read;
  if (read.format == Format::automatic && train.data.format != Format::array) read.format = train.data.format;
  read.memory = std::make_shared<MemoryBudget>(more.use.memory_limit);
  read.ngrams = train.preprocess.ngrams();
  return read_more(path, more, frame_of(train), read, Purpose::evaluation);
}

std::shared_ptr<Data::Inside> rows_beside(const Data::Inside& train, const ArrayRows& rows,
                                          const OptionList& options) {
  return more_of_arrays(rows, options, frame_of(train), Purpose::evaluation);
}

void require_data_of(const truemax::Model& m, const Data::Inside& data) {
  const DataView& rows = data.data;
  const bool same_classes = rows.classes == m.classes || rows.classes->names() == m.classes->names();
  const bool same_features = rows.space == m.space || (rows.space->features == m.space->features &&
                                                       rows.space->words == m.space->words &&
                                                       rows.space->relations == m.space->relations);
  if (!same_classes || !same_features || data.preprocess != m.preprocess)
    throw UserError(
        "the data have other classes, features or preprocessing than the model; read them with "
        "Data::read_for");
}

void in_batches(const DataView& data, std::size_t numbers, const std::function<void(CsrView)>& work) {
  constexpr std::size_t kMostRows = 4096;
  const std::size_t most = rows_of_batch(kMostRows, numbers);
  Csr scratch;
  for (std::size_t first = 0; first < data.row_count();) {
    const RowSlice slice = data.slice(first, most, scratch);
    try {
      work(slice.x());
    } catch (const RowBeyondFloat& error) {
      throw error.named(fmt::format("row {}", first + error.row() + 1));
    }
    first += slice.rows();
  }
}

void predict_data(const Model::Inside& model, const Data::Inside& data, std::size_t top, std::size_t threads,
                  const std::function<void(const Predictions&, std::size_t rows)>& sink) {
  require_data_of(model.model, data);
  const Predictor predictor(model.model, top, threads, nullptr, &model.bounds);
  in_batches(data.data, top, [&](CsrView rows) { sink(predictor.predict(rows), rows.rows()); });
}

void score_data(const truemax::Model& model, const Data::Inside& data, std::size_t threads,
                const std::function<void(std::span<const double>, std::size_t rows)>& sink) {
  require_data_of(model, data);
  std::vector<double> scores;
  in_batches(model.rows_of(data.data), model.weights.classes(), [&](CsrView rows) {
    scores.resize(rows.rows() * model.weights.classes());
    all_scores(model.weights, rows, threads, scores);
    sink(scores, rows.rows());
  });
}

}  // namespace truemax::api

// truemax: softmax models with very many classes, trained towards the true maximum likelihood.
//
//   #include <truemax/truemax.hpp>
//   namespace tmx = truemax::api;
//   auto data  = tmx::Data::read("train.txt", {{"normalize", "l2"}});
//   auto model = tmx::Model::train(data, {{"method", "implicit"}, {"step", "10"}});
//   model.save("model.safetensors");
//
// Options are given by the names and values of the command line (docs/options.md), so each is described in
// one place. Bad input throws truemax::api::Error with file, line, what was found and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "truemax/version.hpp"

#if defined(__GNUC__)
#define TRUEMAX_API __attribute__((visibility("default")))
#else
#define TRUEMAX_API
#endif

namespace truemax::api {

class TRUEMAX_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Options = std::map<std::string, std::string>;

class Model;

// Rows in the caller's arrays, for Data::from_rows. Sparse rows (CSR) have offsets and indices; without them
// the values are dense, row after row. Offsets, indices, labels and weights are copied. Values of CSR with
// ascending indices in each row and without zeros stay where they are, unless an option changes them.
struct Rows {
  std::size_t rows = 0, columns = 0;
  std::span<const std::int64_t> offsets = {};  // rows + 1
  std::span<const std::int32_t> indices = {};
  std::span<const float> values = {};
  // Numbers of `names`: one for each row, or those of row r from label_begin[r] to label_begin[r + 1]. Empty:
  // rows to predict.
  std::span<const std::int32_t> labels = {};
  std::span<const std::uint64_t> label_begin = {};
  std::vector<std::string> names = {};
  std::vector<double> name_weights = {};  // class weights; empty: all 1
  std::span<const double> weights = {};   // of rows; empty: all 1
  std::shared_ptr<const void> owner =
      {};  // keeps the values alive; null: they outlive everything made from them
};

// Rows with labels. Cheap to copy: the rows are shared and never change.
class TRUEMAX_API Data {
 public:
  // A file in any format of docs/formats.md. Options: format, label-file, split, split-column, row-weights,
  // class-weights, labels, max-features, hash-features, max-rows, normalize, word-ngrams, char-ngrams,
  // ngram-buckets, threads, memory-limit; for plain text context, min-count, and encoder (context, cbow or
  // skipgram).
  static Data read(const std::string& path, const Options& options = {});
  // A file to evaluate a model on, read with the model's classes, features and preprocessing.
  // Options: format, label-file, split, split-column, row-weights, class-weights, max-rows, unknown-features,
  // threads, memory-limit (for model and rows together). Weights given for the training data do not carry
  // over.
  static Data read_for(const Model& model, const std::string& path, const Options& options = {});

  // A validation file for a training on `train`, read with the classes, features and preprocessing of
  // `train`. Options as for read_for; unknown-features says what to do with features that `train` does not
  // have.
  static Data read_beside(const Data& train, const std::string& path, const Options& options = {});

  // The same from arrays. Options: those of preprocessing (labels, normalize, max-features, hash-features),
  // and memory-limit, which is the only one of the other two.
  static Data from_rows(const Rows& rows, const Options& options = {});
  static Data from_rows_for(const Model& model, const Rows& rows, const Options& options = {});
  static Data from_rows_beside(const Data& train, const Rows& rows, const Options& options = {});

  std::vector<std::string> notes() const;  // ambiguities met while reading the file
  std::size_t rows() const;
  std::size_t examples() const;  // with labels=all one for each label of a row, else one per row
  std::size_t features() const;
  std::size_t classes() const;
  std::size_t nonzeros() const;

  struct Inside;
  explicit Data(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  friend class Model;
  std::shared_ptr<const Inside> inside_;
};

struct Metrics {
  double log_loss, error, calibration_error;
  double precision_at_1, precision_at_3, precision_at_5;
  std::uint64_t rows, unseen;  // rows counted; examples left out because training never saw their label
  double log_loss_error_bar;   // half of the 95% interval if the log-loss is estimated (eval=sampled), else 0
  std::uint64_t examples;      // counted: with labels=all one for each label of a row, else one per row
};

struct Prediction {
  std::string name;
  double probability;
};

// An evaluation during training, on the training rows and on the validation rows. With patience, the training
// rows are evaluated only once, at the end, on the best model.
struct Evaluation {
  std::uint64_t epoch, steps;  // finished
  double train_seconds;
  std::optional<Metrics> train, valid;
  bool best;  // the last report of a run with patience: the model that is returned
};

// What a training would do.
struct Plan {
  std::string text;                // as `truemax plan` prints it
  std::string json;                // as its --json has it under "plan"
  std::vector<std::string> notes;  // for the user: what was chosen, and options without effect
};

class TRUEMAX_API Model {
 public:
  // Called after every evaluation; false stops the training.
  using Callback = std::function<bool(const Evaluation& evaluation)>;

  // Options: those of `truemax train` that concern training (method, step, decay, epochs, seconds, steps,
  // valid-share, patience, seed, device, ...), and memory-limit. Without method: auto, as there.
  static Model train(const Data& data, const Options& options = {}, const Callback& callback = {});
  // Validates on the given rows (Data::read_beside) instead of on a valid-share of the training rows.
  static Model train(const Data& data, const Data& valid, const Options& options = {},
                     const Callback& callback = {});
  // What train would do with the same arguments, without doing it.
  static Plan plan(const Data& data, const Options& options = {});
  static Plan plan(const Data& data, const Data& valid, const Options& options = {});
  static Model load(const std::string& path, const Options& options = {});  // memory-limit
  void save(const std::string& path) const;

  std::vector<std::string> notes() const;  // of its training, as Plan::notes; none of a model that was loaded
  std::size_t classes() const;
  std::size_t features() const;
  std::vector<std::string> class_names() const;  // in the row order of the model file

  // `data`: the training data, or rows read by Data::read_for. 0 threads: all cores.
  Metrics evaluate(const Data& data, std::size_t threads = 0) const;
  // The `top` most probable classes of each row of a file, with or without labels. Options as for read_for,
  // without weights. `notes`, if not null, receives ambiguities met while reading the file.
  std::vector<std::vector<Prediction>> predict(const std::string& path, std::size_t top,
                                               const Options& options = {},
                                               std::vector<std::string>* notes = nullptr) const;

  // The same for rows of Data::from_rows_for.
  std::vector<std::vector<Prediction>> predict(const Data& data, std::size_t top,
                                               std::size_t threads = 0) const;

  struct Inside;
  explicit Model(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  friend class Index;
  std::shared_ptr<const Inside> inside_;
};

// An index of a model's classes: finds the best of a row without scoring all of them (docs/topk-index.md).
class TRUEMAX_API Index {
 public:
  // Options: recall, top, cells, seed, threads. `rows`: like those to predict; they tell how many cells a row
  // must look into, which is otherwise chosen on the first rows that are predicted.
  static Index build(const Model& model, const Options& options = {});
  static Index build(const Model& model, const Data& rows, const Options& options = {});
  static Index load(const Model& model, const std::string& path);
  void save(const std::string& path) const;

  // As Model::predict. Options: recall, normaliser, threads. `recall`, if not null, receives the share of the
  // best that was found, measured on some of the rows.
  std::vector<std::vector<Prediction>> predict(const Data& data, std::size_t top, const Options& options = {},
                                               double* recall = nullptr) const;

 private:
  struct Inside;
  explicit Index(std::shared_ptr<const Inside> inside);
  std::shared_ptr<const Inside> inside_;
};

}  // namespace truemax::api

// What the handles of the C++ and the C interface hold, and the work they share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/array_rows.hpp"
#include "data/data_view.hpp"
#include "model/model.hpp"
#include "model/predict.hpp"
#include "model/use.hpp"
#include "train/resolve.hpp"
#include "train/search_and_fit.hpp"
#include "truemax/truemax.hpp"

namespace truemax::api {

struct Data::Inside {
  DataView data;
  PreprocessOptions preprocess;
  std::string row_weights, class_weights;  // as given in the options
  std::vector<std::string> notes;
  bool in_place = false;  // the values are in arrays of the caller
};

struct Model::Inside {
  truemax::Model model;
  Lazy<FastBounds> bounds = {};         // of its weights, for predictions of a few rows
  std::vector<std::string> notes = {};  // of its training
};

// Names and values; a name may occur more than once.
using OptionList = std::vector<std::pair<std::string, std::string>>;

// Parses the options. Throws UserError for a name that the table does not have.
void set_options(const OptionTable& table, const OptionList& options);

std::shared_ptr<Data::Inside> read_training_data(const std::string& path, const OptionList& options);
std::shared_ptr<Data::Inside> training_data_of(const ArrayRows& rows, const OptionList& options);

enum class Purpose { evaluation, prediction };
std::shared_ptr<Data::Inside> read_for_model(const truemax::Model& model, Purpose purpose,
                                             const std::string& path, const OptionList& options);
std::shared_ptr<Data::Inside> rows_for_model(const truemax::Model& model, Purpose purpose,
                                             const ArrayRows& rows, const OptionList& options);
std::shared_ptr<Data::Inside> read_beside(const Data::Inside& train, const std::string& path,
                                          const OptionList& options);
std::shared_ptr<Data::Inside> rows_beside(const Data::Inside& train, const ArrayRows& rows,
                                          const OptionList& options);

// A training run: options and memory are checked when it is made.
class Training {
 public:
  // `valid` and `start` may be null; both stay alive.
  Training(std::shared_ptr<const Data::Inside> data, const std::shared_ptr<const Data::Inside>& valid,
           std::shared_ptr<const Model::Inside> start, const OptionList& options);
  // Once. After a divergence the model is the last good one, and outcome().divergence says what happened.
  std::shared_ptr<const Model::Inside> run(std::span<TrainObserver* const> observers,
                                           const std::atomic<bool>& stop);

  const FitResult& result() const { return result_; }
  const truemax::Plan& plan() const { return *plan_; }  // before trials
  const std::vector<std::string>& notes() const { return notes_; }
  std::string plan_text() const;
  nlohmann::ordered_json about_plan() const;  // of tmx_run_plan

 private:
  std::shared_ptr<const Data::Inside> data_;
  std::shared_ptr<const Model::Inside> start_;
  TrainSets sets_;
  std::optional<truemax::Plan> plan_;
  Reasons reasons_;
  std::vector<std::string> notes_;
  FitResult result_;
};

// Throws UserError unless the data have the classes, features and preprocessing of the model.
void require_data_of(const truemax::Model& model, const Data::Inside& data);

// Calls work(rows) for slices of so many rows that `numbers` for each of them take little memory.
void in_batches(const DataView& data, std::size_t numbers, const std::function<void(CsrView)>& work);

// The `top` most probable classes of every row; `sink` gets them in batches of rows.
void predict_data(const Model::Inside& model, const Data::Inside& data, std::size_t top, std::size_t threads,
                  const std::function<void(const Predictions&, std::size_t rows)>& sink);
// The scores of all classes of every row, [rows][K] by class; `sink` gets them in batches of rows.
void score_data(const truemax::Model& model, const Data::Inside& data, std::size_t threads,
                const std::function<void(std::span<const double>, std::size_t rows)>& sink);

}  // namespace truemax::api

// Indexes of the C++ and the C interface.
#include "api/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/row_encoder.hpp"
#include "index/recall.hpp"
#include "model/use.hpp"

namespace truemax::api {
namespace {

struct BuildOptions {
  IndexOptions index;
  double recall = kUsualRecall;
  std::uint64_t top = 5, threads = 0;
};

}  // namespace

IndexInside::IndexInside(std::shared_ptr<const Model::Inside> of)
    : model(std::move(of)), vectors(vectors_in_memory(model->model.weights, *model->model.classes)) {}

std::shared_ptr<IndexInside> build_index_of(std::shared_ptr<const Model::Inside> model,
                                            const Data::Inside* rows, const OptionList& options) {
  BuildOptions build;
  OptionTable table;
  build.index.describe(table);
  table.number("recall", &build.recall, {0, 1, true}, "");
  table.count("top", &build.top, {1, 4e9}, "");
  describe_threads(table, &build.threads);
  set_options(table, options);
  auto inside = std::make_shared<IndexInside>(std::move(model));
  const truemax::Model& m = inside->model->model;
  Csr sample;
  if (rows != nullptr) {
    require_data_of(m, *rows);
    const DataView& all = rows->data;
    const std::size_t count = std::min<std::size_t>(all.row_count(), kRecallRows);
    Csr scratch, some;
    const auto place = [&](std::size_t i) { return place_of_some(i, kRecallRows, all.row_count()); };
    for (std::size_t i = 0; i < count; ++i) some.add(all.slice(place(i), 1, scratch).x().row(0));
    if (m.encoder.empty()) {
      sample = std::move(some);
    } else {
      try {
        encode_rows(*make_row_encoder(m.space->encoder, m.encoder), some.view(), sample);
      } catch (const RowBeyondFloat& error) {
        throw error.named(fmt::format("row {}", place(error.row()) + 1));
      }
    }
  }
  const std::size_t threads = resolve_threads(build.threads);
  inside->index = build_index(*inside->vectors, *m.classes, sample.view(), build.index, {.threads = threads});
  if (sample.rows() > 0)
    inside->index.effort = find_effort(IndexSearch(inside->index, *inside->vectors, *m.classes),
                                       sample.view(), build.top, build.recall, threads);
  inside->index.effort.target = build.recall;
  return inside;
}

std::shared_ptr<IndexInside> load_index_of(std::shared_ptr<const Model::Inside> model,
                                           const std::string& path) {
  auto inside = std::make_shared<IndexInside>(std::move(model));
  inside->index = load_index(path, inside->vectors->mark(resolve_threads(0)), "MODEL");
  return inside;
}

void save_index_of(const IndexInside& inside, const std::string& path) {
  require_writable(path, 0, "");
  std::error_code error;
  if (std::filesystem::exists(path, error) && !is_index_file(path))
    throw UserError(path + ": this file exists and is not an index; give another name");
  save_index(inside.index, path);
}

nlohmann::ordered_json about_index(const IndexInside& inside) {
  nlohmann::ordered_json about{{"classes", inside.index.mark.classes},
                               {"cells", inside.index.cells()},
                               {"bytes", inside.index.bytes()}};
  about.update(inside.index.effort.to_json());
  return about;
}

nlohmann::ordered_json predict_by_index(
    const IndexInside& inside, const Data::Inside& data, std::size_t top, const OptionList& options,
    const std::function<void(const Predictions&, std::size_t rows)>& sink) {
  IndexUse use;
  std::uint64_t threads = 0;
  OptionTable table;
  use.describe(table);
  describe_threads(table, &threads);
  set_options(table, options);
  const truemax::Model& m = inside.model->model;
  require_data_of(m, data);
  IndexPredictor predictor(m, *inside.vectors, inside.index, top, resolve_threads(threads), use);
  in_batches(data.data, top, [&](CsrView rows) { sink(predictor.predict(rows), rows.rows()); });
  predictor.measure();
  nlohmann::ordered_json about = predictor.to_json();
  about["too_low"] = predictor.too_low();
  return about;
}

}  // namespace truemax::api

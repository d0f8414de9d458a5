// An index with what it belongs to, for the interfaces.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "api/inside.hpp"
#include "index/predict.hpp"

namespace truemax::api {

struct IndexInside {
  explicit IndexInside(std::shared_ptr<const Model::Inside> of);

  std::shared_ptr<const Model::Inside> model;
  std::unique_ptr<ClassVectors> vectors;
  ClassIndex index;
};

// Options: recall, top, cells, seed, threads. rows: like those to predict, or null. All throw UserError.
std::shared_ptr<IndexInside> build_index_of(std::shared_ptr<const Model::Inside> model,
                                            const Data::Inside* rows, const OptionList& options);
std::shared_ptr<IndexInside> load_index_of(std::shared_ptr<const Model::Inside> model,
                                           const std::string& path);
void save_index_of(const IndexInside& inside, const std::string& path);
nlohmann::ordered_json about_index(const IndexInside& inside);
// As predict_data. Options: recall, normaliser, threads. Returns what was measured.
nlohmann::ordered_json predict_by_index(
    const IndexInside& inside, const Data::Inside& data, std::size_t top, const OptionList& options,
    const std::function<void(const Predictions&, std::size_t rows)>& sink);

}  // namespace truemax::api

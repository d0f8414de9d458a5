// The indexes of include/truemax/c.h.
#include <nlohmann/json.hpp>

#include "api/c_call.hpp"
#include "api/c_handles.hpp"
#include "api/index.hpp"
#include "core/error.hpp"
#include "truemax/c.h"

struct tmx_index {
  std::shared_ptr<const truemax::api::IndexInside> inside;
};

namespace {
using namespace truemax;  // NOLINT(google-build-using-namespace)
using api::call;
using api::require;

thread_local std::string kept_index_text;
const char* kept(const nlohmann::ordered_json& json) {
  kept_index_text = json.dump();
  return kept_index_text.c_str();
}
}  // namespace

extern "C" {

tmx_status tmx_index_build(const tmx_model* model, const tmx_data* rows, const tmx_option* options,
                           size_t count, tmx_index** out) {
  return call([&] {
    require(model, out);
    *out = new tmx_index{api::build_index_of(model->inside, rows != nullptr ? rows->inside.get() : nullptr,
                                             api::option_list(options, count))};
  });
}

tmx_status tmx_index_load(const tmx_model* model, const char* path, tmx_index** out) {
  return call([&] {
    require(model, path, out);
    *out = new tmx_index{api::load_index_of(model->inside, path)};
  });
}

tmx_status tmx_index_save(const tmx_index* index, const char* path) {
  return call([&] {
    require(index, path);
    api::save_index_of(*index->inside, path);
  });
}

tmx_status tmx_index_json(const tmx_index* index, const char** json) {
  return call([&] {
    require(index, json);
    *json = kept(api::about_index(*index->inside));
  });
}

void tmx_index_free(tmx_index* index) {
  delete index;
}

tmx_status tmx_index_predict_top(const tmx_index* index, const tmx_data* data, uint64_t top,
                                 const tmx_option* options, size_t option_count, int32_t* classes,
                                 double* probabilities, double* errors, uint64_t count, const char** json) {
  return call([&] {
    require(index, data);
    const ClassList& list = *index->inside->model->model.classes;
    if (top < 1 || top > list.size())
      throw UserError("top is " + std::to_string(top) + "; give a number from 1 to the " +
                      std::to_string(list.size()) + " classes of the model");
    api::require_room(count, data->inside->data.row_count(), top);
    if (data->inside->data.row_count() > 0) require(classes, probabilities);
    const std::vector<std::uint32_t>& place = list.name_ranks();
    std::uint64_t at = 0, row = 0;
    const auto about =
        api::predict_by_index(*index->inside, *data->inside, top, api::option_list(options, option_count),
                              [&](const Predictions& p, std::size_t rows) {
                                for (std::size_t i = 0; i < rows * p.top; ++i, ++at) {
                                  classes[at] = static_cast<std::int32_t>(place[p.classes[i]]);
                                  probabilities[at] = p.probability[i];
                                }
                                for (std::size_t r = 0; r < rows && errors != nullptr; ++r)
                                  errors[row + r] = p.error[r];
                                row += rows;
                              });
    if (json != nullptr) *json = kept(about);
  });
}

}  // extern "C"

#include "train/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/parallel.hpp"
#include "ranks/ranks.hpp"

namespace truemax {

std::vector<std::string> Sought::names() const {
  std::vector<std::string> all;
  for (const auto& [sought, name] : {std::pair(encoder, "linear or learnt features"),
                                     {hidden, "hidden"},
                                     {step, "step"},
                                     {ridge, "ridge"},
                                     {epochs, "epochs"},
                                     {layers, "layers"},
                                     {tied, "tied vectors"},
                                     {dropout, "dropout"}})
    if (sought) all.emplace_back(name);
  return all;
}

Recipe Recipe::found(bool has_valid) const {
  Recipe fit = *this;
  // Evaluations of given epochs may watch rows to validate on.
  const bool watches = patience > 0 && has_valid && !sought.epochs;
  fit.sought = {};
  fit.rival = nullptr;
  fit.target = Target::valid;  // the default of named methods
  fit.valid_share = 0;
  if (!watches) fit.patience = 0;
  if (watches && eval_every == 0) fit.eval_every = 1;
  return fit;
}

std::size_t Recipe::thread_count() const {
  return threads > 0 ? resolve_threads(threads)
                     : std::max<std::size_t>(1, resolve_threads(0) / ranks().here());
}

double Recipe::step_at(std::uint64_t epoch) const {
  // The solvers need a step above zero. The smallest normal number changes nothing.
  return std::max(step * std::pow(decay, static_cast<double>(epoch)), std::numeric_limits<double>::min());
}

nlohmann::ordered_json to_json(const Recipe& recipe) {
  Recipe copy = recipe;
  OptionTable table;
  copy.describe(table);
  return table.to_json();
}

nlohmann::ordered_json to_json(const Asked& asked) {
  Asked copy = asked;
  OptionTable table;
  copy.describe(table);
  return table.to_json();
}

Recipe recipe_of(const nlohmann::json& options) {
  Recipe recipe;
  OptionTable table;
  recipe.describe(table);
  table.from_json(options);
  return recipe;
}

}  // namespace truemax

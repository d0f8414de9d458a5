// How a model is trained, whatever the number of rows: what resolve (train/resolve.hpp) makes of what was
// asked, and what trials shall still find. A search makes other recipes from it; bind (train/bind.hpp)
// makes the plan of some rows.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/options.hpp"

namespace truemax {

// What trials shall find. Until then the recipe has what they start from.
struct Sought {
  bool encoder = false;  // linear or learnt features: Recipe::rival
  bool hidden = false;   // h, if they are learnt
  bool step = false, ridge = false, epochs = false;
  bool layers = false, tied = false, dropout = false;  // of plain text

  bool any() const { return encoder || hidden || step || ridge || epochs || layers || tied || dropout; }
  // In the words of the user.
  std::vector<std::string> names() const;
};

struct Recipe : TrainFields<Plain> {
  Sought sought;
  std::uint64_t most_hidden = 0;        // where trials look for h: the largest that fits in memory
  std::shared_ptr<const Recipe> rival;  // learnt features, tried beside this linear model

  bool learnt() const {
    return hidden > 0 || (encoder != EncoderKind::automatic && encoder != EncoderKind::linear);
  }
  bool on_gpu() const { return device::Choice::parse(device).kind == device::Kind::cuda; }
  // The columns of W: learnt features, or those of the data.
  std::uint64_t weight_columns(std::uint64_t features) const { return hidden > 0 ? hidden : features; }
  // Newton's method takes the place of the epochs.
  bool newton_alone() const { return newton > 0 && epochs == 0; }
  // For users. Stored options keep the method, so that logs and models of all versions read alike.
  std::string method_name() const { return newton_alone() ? "newton" : method; }
  // The fit of what trials have found: nothing is sought any more, and all rows are used.
  Recipe found(bool has_valid) const;
  // Of this machine if `threads` is 0.
  std::size_t thread_count() const;
  double step_at(std::uint64_t epoch) const;  // for --schedule decay
};

nlohmann::ordered_json to_json(const Recipe& recipe);
nlohmann::ordered_json to_json(const Asked& asked);  // of what was said
// From a log, a checkpoint or a model. Throws UserError.
Recipe recipe_of(const nlohmann::json& options);

}  // namespace truemax

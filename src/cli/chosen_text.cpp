#include "cli/chosen_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/text.hpp"
#include "train/plan_text.hpp"
#include "train/start_values.hpp"

namespace truemax {
namespace {

// How plain text is encoded.
std::string text_encoder_text(const PreparedRun& run, const Recipe& o) {
  if (!reads_words(run.data.space->encoder)) return "";
  const EncoderKind kind = run.data.space->encoder;
  return fmt::format("{}, {} vectors, dropout {:g}, ",
                     kind == EncoderKind::cbow       ? "cbow"
                     : kind == EncoderKind::skipgram ? "skip-gram"
                     : o.layers > 0                  ? "a tanh layer"
                                                     : "log-bilinear",
                     o.tied ? "tied" : "separate", o.dropout);
}

// Why the model is linear or not; empty if the options said so.
std::string encoder_text(const PreparedRun& run, const FinishedRun& finished) {
  const SearchResult& search = finished.search;
  const Recipe& o = finished.plan->recipe;
  if (const auto& c = search.compared) {
    const std::string learnt = fmt::format("{} learnt features", c->hidden);
    if (c->learnt_wins())
      return fmt::format("chosen  {}: log-loss {:.4f} on held-out rows, linear {:.4f}\n", learnt, c->learnt,
                         c->linear);
    return fmt::format("chosen  linear: log-loss {:.4f} on held-out rows, {} {:.4f}\n", c->linear, learnt,
                       c->learnt);
  }
  if (!run.reading.is_open("encoder") || o.hidden > 0 || first_hidden(run.plan->problem) > 0) return "";
  return fmt::format("chosen  linear: learnt features need more than {} classes and features\n",
                     kFewestHidden);
}

std::string step_and_ridge_text(const Recipe& o) {
  if (o.method == "lbfgs") return fmt::format("ridge {:.4g}", o.ridge);  // it has no step
  if (!o.newton_alone()) return fmt::format("step {:.4g}{}", o.step, ridge_text(o));
  return fmt::format("ridge {:.4g}{}", o.ridge, o.ridge_by_spread ? " by spread" : "");
}

}  // namespace

std::string chosen_text(const PreparedRun& run, const FinishedRun& finished) {
  const Recipe& o = finished.plan->recipe;
  return encoder_text(run, finished) +
         fmt::format("chosen  {}{}{}, {} ({} in {:.2f} s, the fit {:.2f} s)\n",
                     o.hidden > 0 ? fmt::format("hidden {}, ", o.hidden) : "", text_encoder_text(run, o),
                     step_and_ridge_text(o), budget_text(o), counted(finished.search.trials, "trial"),
                     finished.trial_seconds, finished.outcome.train_seconds - finished.trial_seconds);
}

}  // namespace truemax

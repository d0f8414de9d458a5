#include "cli/chosen_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/text.hpp"
#include "train/automatic.hpp"

namespace truemax {
namespace {

// How plain text is encoded.
std::string text_encoder_text(const PreparedRun& run) {
  const TrainOptions& o = run.options.train;
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
std::string encoder_text(const PreparedRun& run, const SearchResult& search) {
  if (const auto& c = search.compared) {
    const std::string learnt = fmt::format("{} learnt features", c->hidden);
    if (c->learnt_wins())
      return fmt::format("chosen  {}: log-loss {:.4f} on held-out rows, linear {:.4f}\n", learnt, c->learnt,
                         c->linear);
    return fmt::format("chosen  linear: log-loss {:.4f} on held-out rows, {} {:.4f}\n", c->linear, learnt,
                       c->learnt);
  }
  const TrainOptions& o = run.options.train;
  if (run.asked.value("encoder", "") != kAutomatic || o.hidden > 0 || first_hidden(run.data) > 0) return "";
  return fmt::format("chosen  linear: learnt features need more than {} classes and features\n",
                     kFewestHidden);
}

}  // namespace

std::string budget_text(const TrainOptions& o) {
  std::vector<std::string> ends;
  if (o.newton > 0 && o.epochs == 0) return "Newton's method";
  if (o.epochs < kUnlimitedEpochs) ends.push_back(counted(o.epochs, "epoch"));
  if (o.steps > 0) ends.push_back(counted(o.steps, "step"));
  if (o.seconds > 0) ends.push_back(fmt::format("{:g} s", o.seconds));
  return fmt::format("{}", fmt::join(ends, " or "));
}

std::string ridge_text(const TrainOptions& o) {
  return o.ridge > 0 ? fmt::format(", ridge {:.4g}{}", o.ridge, o.ridge_by_spread ? " by spread" : "") : "";
}

namespace {

std::string step_and_ridge_text(const TrainOptions& o) {
  if (o.method == "lbfgs") return fmt::format("ridge {:.4g}", o.ridge);  // it has no step
  if (o.newton == 0 || o.epochs > 0) return fmt::format("step {:.4g}{}", o.step, ridge_text(o));
  return fmt::format("ridge {:.4g}{}", o.ridge, o.ridge_by_spread ? " by spread" : "");
}

}  // namespace

std::string chosen_text(const PreparedRun& run, const FinishedRun& finished) {
  const TrainOptions& o = run.options.train;
  return encoder_text(run, finished.search) +
         fmt::format("chosen  {}{}{}, {} ({} in {:.2f} s, the fit {:.2f} s)\n",
                     o.hidden > 0 ? fmt::format("hidden {}, ", o.hidden) : "", text_encoder_text(run),
                     step_and_ridge_text(o), budget_text(o), counted(finished.search.trials, "trial"),
                     finished.trial_seconds, finished.outcome.train_seconds - finished.trial_seconds);
}

}  // namespace truemax

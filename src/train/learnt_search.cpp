// The trials of learnt features: ridge, step, epochs and h. A row costs far more than in a linear step, so
// there are few trials, on a part of the rows if there are many. What is best on a part is best on all rows
// if the ridge per row stays the same and the epochs fall a little.
#include <algorithm>
#include <cmath>
#include <functional>

#include "data/hold_out.hpp"
#include "train/climb.hpp"
#include "train/search.hpp"
#include "train/start_values.hpp"
#include "train/step_shape.hpp"
#include "train/trial_limits.hpp"
#include "train/trials.hpp"

namespace truemax {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What a move must gain: less is noise of the judges. A longer run costs twice as much.
constexpr double kGainSame = 5e-4, kGainTwice = 0.005, kGainLayer = 0.002;
// More learnt features, judged on a part of the rows: on yso-finna-en 512 won by 1.3% there against 256, and
// lost by 0.5% on all rows.
constexpr double kGainHiddenOnPart = 0.02;
// Times the log-loss of the linear model: the first trial, before anything is tuned.
constexpr double kFarBehind = 1.3;
constexpr double kHopeless = 1.1;  // times the log-loss of the linear model: no tuning makes up for it
constexpr double kBehind = 1.01;   // after ridge and step were tuned: longer runs do not make up for it
constexpr double kHurts = 1.02;    // a trial that is so much worse

class LearntSearch {
 public:
  LearntSearch(const Recipe& recipe, const SearchTools& tools, const LinearRival* rival)
      : sets_(tools.sets),
        problem_(tools.problem),
        recipe_(recipe),
        trials_(tools, kNever, rival != nullptr ? rival->trials : 0),
        climb_(recipe, [this] { return trials_.stopped(); }),
        rival_(rival) {}

  Found run() {
    const bool few = !sets_.valid && sets_.data.row_count() < kFewestRows && !on_training_rows();
    if (recipe_.sought.any() && !few && recipe_.seconds == 0) search();
    result_.finished = !trials_.stopped();
    result_.trials = trials_.count();
    return {recipe_.found(sets_.valid.has_value()), result_};
  }

 private:
  // --target train: the rows of a trial are its judges too.
  bool on_training_rows() const { return recipe_.target == Target::train; }

  double trial_seconds() const {
    return recipe_.on_gpu() ? learnt_trials::kDeviceTrialSeconds : learnt_trials::kTrialSeconds;
  }

  // What a trial costs on so many rows, in seconds.
  double seconds(double rows, const Recipe& o) const {
    const auto h = static_cast<double>(o.hidden);
    const double layer = static_cast<double>(o.layers * sets_.data.space->width()) * h;
    // Examples of one row share its scores; each still moves its label.
    const DataView& data = sets_.data;
    const double shared = data.rows_of_inputs().empty()
                              ? 1
                              : static_cast<double>(data.row_count()) / static_cast<double>(data.size());
    const double classes =
        static_cast<double>(o.classes_per_step) * shared + (shared < 1 ? learnt_trials::kLabel : 0);
    return 6 * rows * static_cast<double>(o.epochs) * h * (classes + layer) /
           (recipe_.on_gpu() ? learnt_trials::kDeviceFlops : learnt_trials::kFlops);
  }

  // The rows of a trial: as many as it has time for.
  DataView part_of(const DataView& data) const {
    const auto n = static_cast<double>(data.size());
    const double times = sets_.data.space->of_triples() ? learnt_trials::kTripleTimes : 1;
    const double fits = times * trial_seconds() / seconds(1, climb_.best);
    const double part = std::min(n, std::max(fits, static_cast<double>(learnt_trials::kFewestTrialRows)));
    if (part >= n) return data;
    return sample_part(data, static_cast<std::size_t>(part / n * static_cast<double>(data.row_count())),
                       recipe_.seed + 1);
  }

  void search() {
    const Recipe& o = recipe_;
    std::optional<RowSplit> own;
    if (!sets_.valid && !on_training_rows()) own = set_aside(sets_.data, o.valid_share, o.seed);
    climb_.best = o;
    // Trials count in epochs, because they may have fewer rows.
    if (o.steps > 0) climb_.best.epochs = o.steps / steps_per_epoch(sets_.data.size(), o) + 1;
    const DataView small = part_of(own ? own->rest : sets_.data);
    const DataView& valid = own ? own->valid : on_training_rows() ? small : *sets_.valid;
    const DataView judge = with_labels_of(
        sample_part(valid, std::min(valid.row_count(), learnt_trials::kMostJudges), o.seed), small);
    share_ = static_cast<double>(small.size()) / static_cast<double>(sets_.data.size());
    // A part of a graph is another graph. On fb15k-237 a quarter of the triples asked for three times the
    // ridge; with it, all of them had a validation log-loss of 5.66 instead of 4.40.
    if (sets_.data.space->of_triples() && much_fewer_rows()) return;
    const TrialRows rows{small, judge};
    if (rival_ != nullptr) linear_ = loss("linear", rows, linear_on_part());
    tune(rows);
    if (rival_ != nullptr) result_.compared = {linear_, climb_.least, climb_.best.hidden};
    if (climb_.least < kNever) keep_best();
  }

  void tune(const TrialRows& rows) {
    const Sought& open = recipe_.sought;
    climb_.least = loss("start", rows, climb_.best);
    if (climb_.least > kFarBehind * linear_) return;
    layers(rows);
    if (open.ridge) {
      climb_.along({"ridge", [](Recipe& r, double by) { r.ridge = clamped_ridge(r.ridge * by); },
                    learnt_trials::kRidgeMove, learnt_trials::kMostRidgeMoves, kGainSame, kGainSame},
                   [&](const char* about, const Recipe& with) {
                     const double found = loss(about, rows, with);
                     if (with.ridge > climb_.best.ridge) more_ridge_hurts_ = found > kHurts * climb_.least;
                     return found;
                   });
    }
    if (climb_.least > kHopeless * linear_) return;
    if (open.step)
      climb_.along({"step", [](Recipe& r, double by) { r.step = clamped_step(r.step * by); },
                    learnt_trials::kStepMove, learnt_trials::kMostStepMoves, kGainSame, kGainSame},
                   loss_on(rows));
    if (open.dropout) dropout(rows);
    if (climb_.least > kBehind * linear_) return;
    if (open.epochs) epochs(rows);
    if (open.hidden) hidden(rows);
  }

  void keep_best() {
    Recipe& o = recipe_;
    result_.ridge = o.sought.ridge, result_.step = o.sought.step, result_.epochs = o.sought.epochs;
    result_.log_loss = climb_.least;
    result_.layers = o.sought.layers, result_.tied = o.sought.tied, result_.dropout = o.sought.dropout;
    o.ridge = climb_.best.ridge, o.step = climb_.best.step, o.hidden = climb_.best.hidden;
    o.layers = climb_.best.layers, o.tied = climb_.best.tied, o.dropout = climb_.best.dropout;
    if (o.sought.epochs) o.epochs = on_all_rows(climb_.best.epochs);
  }

  bool is_text() const { return reads_words(sets_.data.space->encoder); }
  // More rows need fewer epochs: the fourth root is what two sets of very different size ask for. Not of
  // plain text, where the ridge keeps longer runs from learning the text by heart.
  bool much_fewer_rows() const { return share_ < learnt_trials::kMuchFewer; }
  std::uint64_t on_all_rows(std::uint64_t epochs) const {
    if (!much_fewer_rows() || is_text()) return epochs;
    return std::max<std::uint64_t>(
        2, static_cast<std::uint64_t>(std::round(static_cast<double>(epochs) * std::pow(share_, 0.25))));
  }
  // The other way round, for the linear run, whose epochs were found on all rows.
  Recipe linear_on_part() const {
    Recipe with = rival_->recipe;
    if (much_fewer_rows() && recipe_.sought.epochs)
      with.epochs =
          static_cast<std::uint64_t>(std::round(static_cast<double>(with.epochs) / std::pow(share_, 0.25)));
    return with;
  }

  double loss(const char* about, const TrialRows& rows, Recipe with) {
    if (!sets_.data.space->of_triples()) with.ridge *= share_;  // the same per row, as that of triples is
    if (is_text() && recipe_.sought.step) with.step = clamped_step(with.step / std::pow(share_, 0.25));
    return trials_.train(about, rows, with, 0);
  }

  Climb::Loss loss_on(const TrialRows& rows) {
    return [this, rows](const char* about, const Recipe& with) { return loss(about, rows, with); };
  }
  bool adopt(const char* about, const TrialRows& rows, const Recipe& with, double gain) {
    return climb_.adopt(about, with, gain, loss_on(rows));
  }

  // Plain text: a tanh layer and tied vectors, together or one of them if the user has set the other.
  void layers(const TrialRows& rows) {
    if (!recipe_.sought.layers && !recipe_.sought.tied) return;
    Recipe with = climb_.best;
    if (recipe_.sought.layers && sets_.data.space->encoder == EncoderKind::context) with.layers = 1;
    if (recipe_.sought.tied) with.tied = with.layers > 0 || sets_.data.space->encoder == EncoderKind::cbow;
    if (with.layers != climb_.best.layers || with.tied != climb_.best.tied)
      adopt("layers", rows, with, kGainLayer);
  }

  void dropout(const TrialRows& rows) {
    for (const double rate : {2 * climb_.best.dropout, climb_.best.dropout / 2}) {
      Recipe with = climb_.best;
      with.dropout = rate;
      if (adopt("dropout", rows, with, kGainLayer)) return;
    }
  }

  // Longer runs, with more ridge where that is better; else shorter ones.
  void epochs(const TrialRows& rows) {
    const std::uint64_t first = climb_.best.epochs;
    while (2 * climb_.best.epochs <= learnt_trials::kMostEpochs && !trials_.stopped() &&
           twice_as_long(rows) <= learnt_trials::kLongestEpochs * trial_seconds()) {
      Recipe with = climb_.best;
      with.epochs *= 2;
      bool better = adopt("epochs", rows, with, kGainTwice);
      if (recipe_.sought.ridge && !more_ridge_hurts_) {
        with.ridge = clamped_ridge(with.ridge * learnt_trials::kRidgeMove);
        better |= adopt("both", rows, with, better ? kGainSame : kGainTwice);
      }
      if (!better) break;
    }
    if (climb_.best.epochs > first || first < 4) return;
    Recipe with = climb_.best;
    with.epochs /= 2;
    adopt("epochs", rows, with, kGainSame);
  }

  // More learnt features, while they pay for the time they cost. The fit on all rows takes longer too, so the
  // limit is lower than for epochs.
  void hidden(const TrialRows& rows) {
    const std::uint64_t most = std::min(recipe_.most_hidden, problem_.full_rank() - 1);
    while (2 * climb_.best.hidden <= most && !trials_.stopped() &&
           twice_as_long(rows) <= learnt_trials::kLongestHidden * trial_seconds()) {
      Recipe with = climb_.best;
      with.hidden *= 2;
      if (!adopt("hidden", rows, with, much_fewer_rows() ? kGainHiddenOnPart : kGainTwice)) break;
    }
  }

  double twice_as_long(const TrialRows& rows) const {
    return 2 * seconds(static_cast<double>(rows.data.size()), climb_.best);
  }

  const TrainSets& sets_;
  const Problem& problem_;
  Recipe recipe_;
  Trials trials_;
  Climb climb_;  // its best is for a run on all rows
  const LinearRival* rival_;
  double linear_ = kNever;
  bool more_ridge_hurts_ = false;  // a trial with more ridge than the best
  double share_ = 1;  // of the rows in a trial; options of a run on all rows have another ridge there
  SearchResult result_;
};

}  // namespace

Found search_learnt(const Recipe& recipe, const SearchTools& tools, const LinearRival* rival) {
  return LearntSearch(recipe, tools, rival).run();
}

}  // namespace truemax

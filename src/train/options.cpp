#include "train/options.hpp"

#include <fmt/format.h>

#include "rule/methods.hpp"

namespace truemax {
namespace {

// A ridge of no number is one that is to be chosen, as if nothing had been said.
Place<std::optional<double>> place_of_ridge(Asked& asked) {
  Place<std::optional<double>> place;
  place.get = [&asked] {
    return asked.ridge_auto ? std::nullopt : std::optional(asked.ridge.value_or(TrainFields<Plain>{}.ridge));
  };
  place.set = [&asked](const std::optional<double>& value) {
    asked.ridge = value, asked.ridge_auto = !value;
  };
  place.said = [&asked] { return asked.ridge || asked.ridge_auto; };
  return place;
}

}  // namespace

void describe_encoder(OptionTable& table, const Place<EncoderKind>& encoder) {
  table.choice(
      "encoder", encoder, {kEncoderNames.begin(), kEncoderNames.end()},
      "What the classes are linear in: the features of the data (linear) or learnt features (bag, see "
      "--hidden); of plain text the words before a word, in order (context), or around it (cbow), or a word "
      "that predicts those around it (skipgram); of triples the product of entity and relation (complex). "
      "auto: trials decide between linear and bag, unless --seconds, --target train or an option of the "
      "linear step is given; without trials, linear if its weights fit in memory; context for plain text, "
      "complex for triples. Named methods: linear unless --hidden is given.");
}

template <template <class> class As>
void TrainFields<As>::describe(OptionTable& table) {
  const TrainFields<Plain> d;
  constexpr bool kAsked = !std::is_same_v<As<double>, double>;
  std::vector<std::string> method_names, biased, draw_names;
  if (kAsked) method_names.emplace_back(kAutomatic);
  for (const MethodInfo* info : methods()) {
    method_names.emplace_back(info->name);
    if (info->biased) biased.emplace_back(info->name);
  }
  for (const MethodAlias& alias : kMethodAliases) {
    method_names.emplace_back(alias.name);
    if (find_method(alias.name).biased) biased.emplace_back(alias.name);
  }
  for (const DrawInfo& info : truemax::draws()) draw_names.emplace_back(info.name);
  table.group("Training");
  table.named_choice(
      "method", {&method, kAutomatic}, method_names,
      fmt::format("Training method ('truemax methods' lists them). auto: prox, or scent for "
                  "learnt features, or with --target train adam or lbfgs if classes and features are few; "
                  "where all is few, Newton's method; the draw "
                  "is chosen from the data, and linear or learnt features, step, ridge and epochs are tuned "
                  "on held-out rows before a "
                  "final fit on all rows. Options you set are kept. A named method trains on "
                  "all rows for exactly --epochs and tunes nothing. Biased "
                  "methods, whose optimum is not that of softmax: {}.",
                  fmt::join(biased, ", ")),
      {.brief = true, .tunable = true});
  table.choice("target", Place<Target>{&target, d.target},
               {{"valid", Target::valid}, {"train", Target::train}},
               "What --method auto optimises: the log-loss on held-out rows, or the training likelihood (no "
               "validation; no ridge or intercept unless set), to compare with other methods.",
               {.tunable = true});
  table.number(
      "step", {&step, d.step}, {0, kLargestStep, true},
      "Step size: the factor on one row's gradient, as eta0 of scikit-learn's SGDClassifier. It is eta*N "
      "for the paper's learning rate eta, which applies to the sum over N rows. Of adam: about the most by "
      "which one feature changes a row's score in a step. lbfgs has none. With --schedule decay, "
      "epoch e (from 0) uses step * decay^e.",
      {.brief = true,
       .tunable = true,
       .plain_default = kFoundByTrials,
       .elsewhere = {"lr", "learning-rate", "eta", "eta0"}});
  table.choice("schedule", Place<Schedule>{&schedule, d.schedule},
               {{"decay", Schedule::decay}, {"linear", Schedule::linear}},
               "How the step decreases: by the factor --decay after each epoch, or linearly to 1% of its "
               "start over the whole fit, whether epochs, steps or seconds end it.",
               {.tunable = true, .common = true, .plain_default = "linear"});
  table.number("decay", {&decay, d.decay}, {0, 1, true},
               "Factor on the step after each epoch, for --schedule decay.",
               {.tunable = true, .common = true});
  table.count_alias(
      "epochs", {&epochs, d.epochs}, {0, kUnlimitedEpochs}, kUnlimited,
      "Passes over the data; one epoch visits N rows. Unlimited if --seconds or --steps is given "
      "without --epochs.",
      {.brief = true,
       .plain_default = kFoundByTrials,
       .elsewhere = {"epoch", "iterations", "iter", "max-iter", "passes"}},
      kUnlimitedEpochs);
  table.count_alias("steps", {&steps, d.steps}, {.low = 1}, kUnlimited,
                    "Stop after this many steps in total, even in the middle of an epoch.");
  table.count(
      "newton", {&newton, d.newton}, {0, 1e6},
      "After the epochs, take at most this many steps of Newton's method over all rows and classes at "
      "once: the exact optimum of a linear model of few rows. With --method auto: instead of epochs.",
      {.plain_default = kChosenFromData});
  table.number_alias(
      "seconds", {&seconds, d.seconds}, {0, 1e9, true}, kUnlimited,
      "Train for this many seconds (within 5% or 10 ms), not counting reading and evaluation. The "
      "log records the steps taken, for --replay.",
      {.brief = true});
  table.count(
      "rows-per-step", {&rows_per_step, d.rows_per_step}, {1, 1e9},
      "Rows per step (n); the step size is divided among them, except that of adam. lbfgs always takes all.",
      {.tunable = true, .elsewhere = {"batch-size", "batch", "minibatch"}});
  table.count_or(
      "group", {&group, d.group}, {1, kMostGroup}, kAutomatic, 0,
      "Rows that are solved side by side, each as a step of one row with the whole step size, from the same "
      "weights; then all are applied. For prox, scent, umax and exact, linear models. Threads share a group: "
      "with a head, whose steps one thread takes otherwise, this lets several work, and their number does "
      "not change the result. A group ends where the step size changes, 200 times in a linear schedule. "
      "With too many rows, steps overshoot: 'truemax train' then says how many are safe. "
      "auto: none in truemax; for the ranks of truemax-mpi, which send messages once for every group, a "
      "power of two up to 512.",
      {.tunable = true});
  table.choice("visit", Place<Visit>{&visit, d.visit},
               {{"random", Visit::random}, {"shuffle", Visit::shuffle}, {"file", Visit::file}},
               "Order of the rows: random with replacement, a new shuffle each epoch, or as in the file.",
               {.tunable = true, .common = true, .plain_default = "shuffle"});
  table.count("seed", {&seed, d.seed}, {}, "Random seed; the same seed gives bit-identical results.",
              {.tunable = true, .common = true, .elsewhere = {"random-state", "random-seed"}});
  table.group("Classes of a step");
  table.count(
      "classes-per-step", {&classes_per_step, d.classes_per_step}, {1, 1e9}, "Classes drawn per step (m).",
      {.tunable = true, .plain_default = kChosenFromData, .elsewhere = {"neg", "negatives", "num-sampled"}});
  table.named_choice("draw", {&draw, d.draw}, draw_names,
                     "How the classes of a step are drawn ('truemax methods' lists the draws).",
                     {.tunable = true, .plain_default = "head-blocks"});
  draws.describe(table);
  table.group("Model");
  describe_encoder(table, {&encoder, d.encoder});
  table.count_or(
      "hidden", {&hidden, d.hidden}, {1, 65536}, "none", 0,
      "Learn this many features of a row (h): every feature of the data gets a vector of h numbers, a row is "
      "the sum of its vectors times its values, and the classes are linear in that. Trained by scent with "
      "RMSprop and a fixed --rho, which is slightly biased; --step is about the most by which a number moves "
      "in a step, and the ridge pulls only on what a step touches. Without it, --encoder bag finds h by "
      "trials. Of triples: entities and relations have h/2 complex numbers each; 200 if not given.",
      {.brief = true, .elsewhere = {"dim", "embedding-dim", "hidden-size"}});
  table.count(
      "layers", {&layers, d.layers}, {0, 1},
      "Plain text: 1 puts a tanh layer between the words of a context and the learnt features, 0 adds "
      "the words' vectors with a factor for each place and number (log-bilinear).",
      {.plain_default = kFoundByTrials});
  table.toggle("tied", {&tied, d.tied},
               "Plain text: a word has one vector, as context and as class. --no-tied: two.",
               {.plain_default = kFoundByTrials, .elsewhere = {"tie", "tie-weights", "weight-tying"}});
  table.toggle(
      "row-state", {&row_state, d.row_state},
      "Learnt features: RMSprop keeps one running mean of squared gradients for a vector instead of one for "
      "each of its numbers, which takes about a third less memory. Chosen if memory is short.",
      {.plain_default = kChosenFromData});
  table.number(
      "dropout", {&dropout, d.dropout}, {0, 0.95},
      "Learnt features: the share of the numbers of a row that a step leaves out at random. Found by "
      "trials for plain text, else 0.",
      {.plain_default = kFoundByTrials});
  table.toggle("intercept", {&intercept, d.intercept}, "Give every class an intercept.",
               {.tunable = true, .common = true, .plain_default = "on"});
  table.toggle("start-at-frequencies", {&start_at_frequencies, d.start_at_frequencies},
               "Initialise the intercepts to the logarithms of the class frequencies.",
               {.tunable = true, .plain_default = "on", .former_name = "warm-start"});
  const char* const of_ridge =
      "Ridge (L2) penalty mu: adds mu/2 |W|^2 to the sum of the row losses. In scikit-learn's terms mu = 1/C "
      "of LogisticRegression (2/C of two classes) = alpha*N of SGDClassifier. Of triples: the weight of the "
      "N3 penalty in the "
      "loss of a triple. auto: chosen by the validation log-loss.";
  const OptionTags ridge_tags{.brief = true,
                              .tunable = true,
                              .common = true,
                              .plain_default = kFoundByTrials,
                              .elsewhere = {"C", "l2", "alpha", "lambda", "weight-decay", "reg"}};
  const Range ridges{0, 1e15};
  if constexpr (kAsked)
    table.number_or("ridge", place_of_ridge(static_cast<Asked&>(*this)), ridges, kAutomatic, of_ridge,
                    ridge_tags);
  else
    table.number("ridge", &ridge, ridges, of_ridge, ridge_tags);
  table.toggle("ridge-intercept", {&ridge_intercept, d.ridge_intercept}, "Penalise the intercept too.",
               {.tunable = true, .common = true});
  table.toggle("ridge-by-spread", {&ridge_by_spread, d.ridge_by_spread},
               "The ridge counts every weight in units of 1 / the standard deviation of its feature, as if "
               "features were standardised: mu/2 sum of spread^2 w^2. Needs --newton, and --epochs 0.",
               {.plain_default = kFoundByTrials});
  table.group("Validation and evaluation");
  table.number(
      "valid-share", {&valid_share, d.valid_share}, {0, 0.9},
      "Hold out this share of the training rows, chosen by --seed, for validation; classes and features "
      "still come from all rows. auto holds out none if --valid is given, and finally fits all rows.",
      {.plain_default = "0.1"});
  table.count_alias(
      "patience", {&patience, d.patience}, {1, 1e9}, "off",
      "Stop after this many evaluations without a better validation log-loss, and keep the best model. "
      "Training and test rows are then evaluated only at the end. Where trials choose options, it needs "
      "--epochs and --valid.");
  table.count("eval-every", {&eval_every, d.eval_every}, {0, 1e9},
              "Epochs between evaluations; the last epoch is always evaluated. 0: only the last. If not "
              "given: 0 with --seconds, 1 with --patience.",
              {.plain_default = "0"});
  table.toggle(
      "eval-train", {&eval_train, d.eval_train},
      "Evaluate the training rows too. --no-eval-train saves time with very many rows and classes; it "
      "needs validation or test rows.",
      {.tunable = true});
  evaluation.describe(table);
  table.group("Machine");
  table.count_alias(
      "threads", {&threads, d.threads}, {1, 4096}, kAllCores,
      "Threads for reading, evaluation, prediction, learnt features, steps over drawn blocks and groups of "
      "rows. Results do not depend on it, except for lock-free steps.",
      {.brief = true,
       .common = true,
       .of_machine = true,
       .replay = Replay::free,
       .elsewhere = {"thread", "jobs", "n-jobs"}});
  device::describe(table, {&device, d.device}, device::kAuto);
  table.toggle(
      "lock-free", {&lock_free, d.lock_free},
      "Threads take steps without waiting for each other (Hogwild): faster, but not reproducible bit for "
      "bit. For learnt features, and for prox, or implicit without ridge, with --draw blocks or head-blocks, "
      "also if they were chosen for you. A run of learnt features takes one step at once for every 256 steps "
      "it has: a short one takes them in order.",
      {.tunable = true});
  table.toggle(
      "shard-embedding", {&shard_embedding, d.shard_embedding},
      "Learnt features on several ranks (truemax-mpi): the ranks share the vectors of the features out, as "
      "they do those of the classes, instead of each having all of them. Less memory a rank, more to send. "
      "Vectors that features and classes share (--tied, triples) are always shared out. One process has all "
      "of them in any case.",
      {.replay = Replay::free, .elsewhere = {"sharded-embedding"}});
  rule.describe(table);
}

template struct TrainFields<Plain>;          // NOLINT(clang-analyzer-optin.performance.Padding)
template struct TrainFields<std::optional>;  // NOLINT(clang-analyzer-optin.performance.Padding)

}  // namespace truemax

#include "train/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "ranks/ranks.hpp"
#include "rule/methods.hpp"

namespace truemax {
namespace {

void check_count(const char* option, std::uint64_t value, std::size_t most, std::string_view method,
                 const char* singular, const char* plural) {
  if (value <= most) return;
  throw UserError(fmt::format("--{} {}: the method {} takes {} {} a step; give --{} {} or another --method",
                              option, value, method, most == 1 ? "one" : fmt::format("from 1 to {}", most),
                              most == 1 ? singular : plural, option, most));
}

}  // namespace

void describe_encoder(OptionTable& table, EncoderKind* encoder) {
  table.choice(
      "encoder", encoder, {kEncoderNames.begin(), kEncoderNames.end()},
      "What the classes are linear in: the features of the data (linear) or learnt features (bag, see "
      "--hidden); of plain text the words before a word, in order (context), or around it (cbow), or a word "
      "that predicts those around it (skipgram); of triples the product of entity and relation (complex). "
      "auto: trials decide between linear and bag, unless --seconds, --target train or an option of the "
      "linear step is given; without trials, linear if its weights fit in memory; context for plain text, "
      "complex for triples. Named methods: linear unless --hidden is given.");
}

void TrainOptions::describe(OptionTable& table) {
  std::vector<std::string> method_names{kAutomatic}, biased, draw_names;
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
      "method", &method, method_names,
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
  table.choice("target", &target, {{"valid", Target::valid}, {"train", Target::train}},
               "What --method auto optimises: the log-loss on held-out rows, or the training likelihood (no "
               "validation; no ridge or intercept unless set), to compare with other methods.",
               {.tunable = true});
  table.number(
      "step", &step, {0, kLargestStep, true},
      "Step size: the factor on one row's gradient, as eta0 of scikit-learn's SGDClassifier. It is eta*N "
      "for the paper's learning rate eta, which applies to the sum over N rows. Of adam: about the most by "
      "which one feature changes a row's score in a step. lbfgs has none. With --schedule decay, "
      "epoch e (from 0) uses step * decay^e.",
      {.brief = true,
       .tunable = true,
       .plain_default = kFoundByTrials,
       .elsewhere = {"lr", "learning-rate", "eta", "eta0"}});
  table.choice("schedule", &schedule, {{"decay", Schedule::decay}, {"linear", Schedule::linear}},
               "How the step decreases: by the factor --decay after each epoch, or linearly to 1% of its "
               "start over the whole fit, whether epochs, steps or seconds end it.",
               {.tunable = true, .common = true, .plain_default = "linear"});
  table.number("decay", &decay, {0, 1, true}, "Factor on the step after each epoch, for --schedule decay.",
               {.tunable = true, .common = true});
  table.count_alias(
      "epochs", &epochs, {0, kUnlimitedEpochs}, kUnlimited,
      "Passes over the data; one epoch visits N rows. Unlimited if --seconds or --steps is given "
      "without --epochs.",
      {.brief = true,
       .plain_default = kFoundByTrials,
       .elsewhere = {"epoch", "iterations", "iter", "max-iter", "passes"}},
      kUnlimitedEpochs);
  table.count_alias("steps", &steps, {.low = 1}, kUnlimited,
                    "Stop after this many steps in total, even in the middle of an epoch.");
  table.count(
      "newton", &newton, {0, 1e6},
      "After the epochs, take at most this many steps of Newton's method over all rows and classes at "
      "once: the exact optimum of a linear model of few rows. With --method auto: instead of epochs.",
      {.plain_default = kChosenFromData});
  table.number_alias(
      "seconds", &seconds, {0, 1e9, true}, kUnlimited,
      "Train for this many seconds (within 5% or 10 ms), not counting reading and evaluation. The "
      "log records the steps taken, for --replay.",
      {.brief = true});
  table.count(
      "rows-per-step", &rows_per_step, {1, 1e9},
      "Rows per step (n); the step size is divided among them, except that of adam. lbfgs always takes all.",
      {.tunable = true, .elsewhere = {"batch-size", "batch", "minibatch"}});
  table.count_or(
      "group", &group, {1, kMostGroup}, kAutomatic, 0,
      "Rows that are solved side by side, each as a step of one row with the whole step size, from the same "
      "weights; then all are applied. For prox, scent, umax and exact, linear models. Threads share a group: "
      "with a head, whose steps one thread takes otherwise, this lets several work, and their number does "
      "not change the result. A group ends where the step size changes, 200 times in a linear schedule. "
      "With too many rows, steps overshoot: 'truemax train' then says how many are safe. "
      "auto: none in truemax; for the ranks of truemax-mpi, which send messages once for every group, a "
      "power of two up to 512.",
      {.tunable = true});
  table.choice("visit", &visit,
               {{"random", Visit::random}, {"shuffle", Visit::shuffle}, {"file", Visit::file}},
               "Order of the rows: random with replacement, a new shuffle each epoch, or as in the file.",
               {.tunable = true, .common = true, .plain_default = "shuffle"});
  table.count("seed", &seed, {}, "Random seed; the same seed gives bit-identical results.",
              {.tunable = true, .common = true, .elsewhere = {"random-state", "random-seed"}});
  table.group("Classes of a step");
  table.count(
      "classes-per-step", &classes_per_step, {1, 1e9}, "Classes drawn per step (m).",
      {.tunable = true, .plain_default = kChosenFromData, .elsewhere = {"neg", "negatives", "num-sampled"}});
  table.named_choice("draw", &draw, draw_names,
                     "How the classes of a step are drawn ('truemax methods' lists the draws).",
                     {.tunable = true, .plain_default = "head-blocks"});
  draws.describe(table);
  table.group("Model");
  describe_encoder(table, &encoder);
  table.count_or(
      "hidden", &hidden, {1, 65536}, "none", 0,
      "Learn this many features of a row (h): every feature of the data gets a vector of h numbers, a row is "
      "the sum of its vectors times its values, and the classes are linear in that. Trained by scent with "
      "RMSprop and a fixed --rho, which is slightly biased; --step is about the most by which a number moves "
      "in a step, and the ridge pulls only on what a step touches. Without it, --encoder bag finds h by "
      "trials. Of triples: entities and relations have h/2 complex numbers each; 200 if not given.",
      {.brief = true, .elsewhere = {"dim", "embedding-dim", "hidden-size"}});
  table.count(
      "layers", &layers, {0, 1},
      "Plain text: 1 puts a tanh layer between the words of a context and the learnt features, 0 adds "
      "the words' vectors with a factor for each place and number (log-bilinear).",
      {.plain_default = kFoundByTrials});
  table.toggle("tied", &tied, "Plain text: a word has one vector, as context and as class. --no-tied: two.",
               {.plain_default = kFoundByTrials, .elsewhere = {"tie", "tie-weights", "weight-tying"}});
  table.toggle(
      "row-state", &row_state,
      "Learnt features: RMSprop keeps one running mean of squared gradients for a vector instead of one for "
      "each of its numbers, which takes about a third less memory. Chosen if memory is short.",
      {.plain_default = kChosenFromData});
  table.number(
      "dropout", &dropout, {0, 0.95},
      "Learnt features: the share of the numbers of a row that a step leaves out at random. Found by "
      "trials for plain text, else 0.",
      {.plain_default = kFoundByTrials});
  table.toggle("intercept", &intercept, "Give every class an intercept.",
               {.tunable = true, .common = true, .plain_default = "on"});
  table.toggle("start-at-frequencies", &start_at_frequencies,
               "Initialise the intercepts to the logarithms of the class frequencies.",
               {.tunable = true, .plain_default = "on", .former_name = "warm-start"});
  table.number_or(
      "ridge", &ridge, {0, 1e15}, kAutomatic, kAutomaticRidge,
      "Ridge (L2) penalty mu: adds mu/2 |W|^2 to the sum of the row losses. In scikit-learn's terms mu = 1/C "
      "of LogisticRegression (2/C of two classes) = alpha*N of SGDClassifier. Of triples: the weight of the "
      "N3 penalty in the "
      "loss of a triple. auto: chosen by the validation log-loss.",
      {.brief = true,
       .tunable = true,
       .common = true,
       .plain_default = kFoundByTrials,
       .elsewhere = {"C", "l2", "alpha", "lambda", "weight-decay", "reg"}});
  table.toggle("ridge-intercept", &ridge_intercept, "Penalise the intercept too.",
               {.tunable = true, .common = true});
  table.toggle("ridge-by-spread", &ridge_by_spread,
               "The ridge counts every weight in units of 1 / the standard deviation of its feature, as if "
               "features were standardised: mu/2 sum of spread^2 w^2. Needs --newton, and --epochs 0.",
               {.plain_default = kFoundByTrials});
  table.group("Validation and evaluation");
  table.number(
      "valid-share", &valid_share, {0, 0.9},
      "Hold out this share of the training rows, chosen by --seed, for validation; classes and features "
      "still come from all rows. auto holds out none if --valid is given, and finally fits all rows.",
      {.plain_default = "0.1"});
  table.count_alias(
      "patience", &patience, {1, 1e9}, "off",
      "Stop after this many evaluations without a better validation log-loss, and keep the best model. "
      "Training and test rows are then evaluated only at the end. Where trials choose options, it needs "
      "--epochs and --valid.");
  table.count("eval-every", &eval_every, {0, 1e9},
              "Epochs between evaluations; the last epoch is always evaluated. 0: only the last. If not "
              "given: 0 with --seconds, 1 with --patience.",
              {.plain_default = "0"});
  table.toggle(
      "eval-train", &eval_train,
      "Evaluate the training rows too. --no-eval-train saves time with very many rows and classes; it "
      "needs validation or test rows.",
      {.tunable = true});
  evaluation.describe(table);
  table.group("Machine");
  table.count_alias(
      "threads", &threads, {1, 4096}, kAllCores,
      "Threads for reading, evaluation, prediction, learnt features, steps over drawn blocks and groups of "
      "rows. Results do not depend on it, except for lock-free steps.",
      {.brief = true,
       .common = true,
       .of_machine = true,
       .replay = Replay::free,
       .elsewhere = {"thread", "jobs", "n-jobs"}});
  device::describe(table, &device, device::kAuto);
  table.toggle(
      "lock-free", &lock_free,
      "Threads take steps without waiting for each other (Hogwild): faster, but not reproducible bit for "
      "bit. For learnt features, and for prox, or implicit without ridge, with --draw blocks or head-blocks, "
      "also if they were chosen for you. A run of learnt features takes one step at once for every 256 steps "
      "it has: a short one takes them in order.",
      {.tunable = true});
  table.toggle(
      "shard-embedding", &shard_embedding,
      "Learnt features on several ranks (truemax-mpi): the ranks share the vectors of the features out, as "
      "they do those of the classes, instead of each having all of them. Less memory a rank, more to send. "
      "Vectors that features and classes share (--tied, triples) are always shared out. One process has all "
      "of them in any case.",
      {.replay = Replay::free, .elsewhere = {"sharded-embedding"}});
  rule.describe(table);
}

void TrainOptions::complete(const std::function<bool(const char* option)>& given, EncoderKind of_data,
                            bool groups) {
  constexpr std::uint64_t kTextFeatures = 256, kTripleFeatures = 200;
  const bool text = reads_words(of_data), triples = of_data == EncoderKind::complex;
  if (encoder == EncoderKind::automatic) encoder = of_data;
  groups |= group > 0 || ranks().in_groups();
  open.device = !given("device");
  if (open.device && automatic()) device = device::kAuto;
  const std::optional<device::Choice> where = device::Choice::read(device);
  if (where && where->kind == device::Kind::cuda && !automatic() && hidden == 0 && !given("draw")) {
    draw = "blocks";  // the only one of a GPU
    if (!given("classes-per-step")) classes_per_step = kBlockClasses;
  }
  if (groups && !automatic() && hidden == 0 && !given("draw") && !find_method(method).whole_set) {
    draw = "blocks";  // the same of groups
    if (!given("classes-per-step")) classes_per_step = kBlockClasses;
  }
  if ((text || triples) && automatic() && !given("hidden") && encoder != EncoderKind::linear)
    hidden = text ? kTextFeatures : kTripleFeatures;
  if (automatic()) {
    const bool aims_at_train = target == Target::train;
    open.shape = !given("draw") && !given("head") && !given("classes-per-step");
    open.step = !given("step");
    open.epochs = !given("epochs") && steps == 0 && !aims_at_train;
    if (!given("ridge") && !aims_at_train) ridge = kAutomaticRidge;
    open.ridge = ridge == kAutomaticRidge;
    if (!given("schedule")) schedule = Schedule::linear;
    if (!given("visit")) visit = Visit::shuffle;
    if (!given("intercept")) intercept = !aims_at_train && !triples;
    if (!given("start-at-frequencies")) start_at_frequencies = intercept;
    if (!given("eval-every")) eval_every = 0;
    complete_encoder(given);
    if (learnt()) {
      complete_learnt(given, text);
    } else {
      if (!given("draw") && !open.shape) draw = "head-blocks";
      if (!open.shape && !given("classes-per-step")) classes_per_step = 16;
    }
    open.newton =
        open.shape && open.step && !given("epochs") && steps == 0 && !learnt() && !lock_free && patience == 0;
    if ((where && where->kind == device::Kind::cuda) || groups) open.newton = false;
    for (const char* of_steps : {"newton", "schedule", "visit", "rows-per-step", "valid-share",
                                 "start-at-frequencies", "ridge-by-spread", "rho", "rho-falls", "eval-every"})
      open.newton = open.newton && !given(of_steps);
    open.by_weight = open.shape && open.step && aims_at_train && !learnt() && !lock_free && !groups &&
                     steps == 0 && newton == 0 && !(where && where->kind == device::Kind::cuda);
    for (const char* of_prox : {"rows-per-step", "rho", "rho-falls"})
      open.by_weight = open.by_weight && !given(of_prox);
    if (newton > 0 && given("newton") && !given("epochs")) epochs = 0, open.step = open.epochs = false;
    if (epochs == 0 && given("epochs"))
      open.step = open.ridge = open.hidden = false, ridge = ridge == kAutomaticRidge ? 0 : ridge;
    if (!given("valid-share")) valid_share = open.searches() && !aims_at_train && !given("valid") ? 0.1 : 0;
  }
  if (encoder == EncoderKind::automatic && !open.encoder)
    encoder = hidden > 0 ? EncoderKind::bag : EncoderKind::linear;
  if ((seconds > 0 || steps > 0) && !given("epochs")) epochs = kUnlimitedEpochs;
  // Evaluations do not count as training time, but the user waits for them: a second may hold thousands of
  // epochs.
  if (given("eval-every")) return;
  if (seconds > 0) eval_every = 0;
  if (patience > 0 && !open.searches()) eval_every = 1;
}

// Options that mean something else for learnt features (a step, a ridge) ask for the linear model.
void TrainOptions::complete_encoder(const std::function<bool(const char* option)>& given) {
  const bool of_linear = !open.shape || !open.step || !open.ridge || steps > 0 || given("rows-per-step") ||
                         given("rho") || given("rho-falls") || lock_free || group > 0;
  open.encoder =
      encoder == EncoderKind::automatic && hidden == 0 && !of_linear && !(epochs == 0 && given("epochs"));
  open.hidden =
      hidden == 0 && seconds == 0 && target == Target::valid && (open.encoder || encoder == EncoderKind::bag);
}

// Many rows share many drawn classes, so that scores are matrix products.
void TrainOptions::complete_learnt(const std::function<bool(const char* option)>& given, bool text) {
  open.shape = !given("rows-per-step");
  if (!given("draw")) draw = "frequency";
  if (!given("classes-per-step")) classes_per_step = 1024;
  const bool shares_inputs = encoder == EncoderKind::skipgram || encoder == EncoderKind::complex;
  if (!given("rho")) rule.rho = shares_inputs ? 4 : 0.1;
  if (!given("rho-falls")) rule.rho_falls = false;
  open.row_state = !given("row-state");
  if (text) open.ridge = false;  // a part of a text asks for too little ridge, so it is not tuned
  if (!text || target == Target::train) return;
  open.layers = !given("layers") && encoder == EncoderKind::context;
  // A word is not the best guess for its own neighbours, and one word alone leaves little to leave out.
  const bool several = encoder != EncoderKind::skipgram;
  open.tied = several && !given("tied"), open.dropout = several && !given("dropout");
}

void TrainOptions::check() const {
  evaluation.check();
  if (encoder == EncoderKind::linear && hidden > 0)
    throw UserError(fmt::format(
        "--encoder linear --hidden {}: a linear model has no learnt features; leave one of the two out",
        hidden));
  if (encoder == EncoderKind::bag && hidden == 0 && !automatic())
    throw UserError(fmt::format(
        "--encoder bag: only --method auto chooses how many features to learn; add --hidden, or leave "
        "--method {} out",
        method));
  if (hidden > 0 && !automatic() && method != "scent")
    throw UserError(fmt::format(
        "--hidden {}: learnt features are trained by scent, not {}; leave --method out, or --hidden", hidden,
        method));
  if (hidden == 0 && (layers > 0 || tied || dropout > 0 || row_state))
    throw UserError(fmt::format(
        "--{}: this is an option of learnt features; add --hidden 256, or leave it out", layers > 0 ? "layers"
                                                                                         : tied     ? "tied"
                                                                                         : dropout > 0
                                                                                             ? "dropout"
                                                                                             : "row-state"));
  if (group > 0 && learnt())
    throw UserError(fmt::format(
        "--group {}: rows of learnt features share a step anyway; give --rows-per-step, or leave it out",
        group));
  const MethodInfo& info = find_method(method_used());
  if (ridge == kAutomaticRidge && !automatic())
    throw UserError(fmt::format(
        "--ridge auto: only --method auto chooses the ridge; give {} a number, or leave --method out",
        method));
  if (ridge == kAutomaticRidge && target == Target::train)
    throw UserError(
        "--ridge auto: --target train has no validation rows to choose it by; give a number, or leave it "
        "out");
  if (target == Target::train && valid_share > 0)
    throw UserError("--valid-share: --target train sets no rows aside; leave one of the two out");
  if (target == Target::train && !automatic())
    throw UserError(fmt::format(
        "--target train: the method {} always aims at its objective; leave --target or --method out",
        method));
  if (start_at_frequencies && !intercept)
    throw UserError(
        "--start-at-frequencies: there is no intercept to start; add --intercept, or leave it out");
  if (newton > 0 && learnt())
    throw UserError(fmt::format(
        "--newton {}: Newton's method is for linear models; leave it out, or give --encoder linear", newton));
  if (ridge_by_spread && (newton == 0 || epochs > 0))
    throw UserError(
        "--ridge-by-spread: only Newton's method counts the ridge so; add --newton 100 --epochs 0, or leave "
        "it "
        "out");
  check_count("rows-per-step", rows_per_step, info.most_rows, info.name, "row", "rows");
  check_count("classes-per-step", classes_per_step, info.most_classes, info.name, "class", "classes");
  if (!find_draw(draw).takes_rows && rows_per_step > 1 && !info.whole_set)
    throw UserError(
        fmt::format("--rows-per-step {}: the draw {} is for --rows-per-step 1; give that or another --draw",
                    rows_per_step, draw));
  if (lock_free && hidden == 0) {
    if (info.name != "prox" && info.name != "implicit")
      throw UserError(fmt::format(
          "--lock-free: of linear models, prox and implicit can run lock-free, not {}; give --method prox "
          "with --draw blocks or --draw head-blocks, add --hidden, or leave it out",
          info.name));
    if (info.name == "implicit" && ridge != 0)
      throw UserError(
          "--lock-free: implicit with a ridge cannot run lock-free; give --ridge 0 or --method prox, or "
          "leave it out");
    if (rows_per_step > 1)
      throw UserError(
          "--lock-free: steps of one row can run lock-free; give --rows-per-step 1, or leave it out");
    if (!open.shape && !find_draw(draw).whole_blocks)
      throw UserError(
          fmt::format("--lock-free: steps over whole blocks can run lock-free, not those of --draw {}; give "
                      "--draw blocks or --draw head-blocks, or leave it out",
                      draw));
  }
  if (lock_free && ranks().in_groups())
    throw UserError("--lock-free: the ranks of truemax-mpi take every step together; leave it out");
  if (patience > 0 && eval_every == 0 && !open.searches())
    throw UserError(fmt::format(
        "--patience {}: with --eval-every 0 there is no evaluation to wait for; give --eval-every 1",
        patience));
}

std::size_t TrainOptions::thread_count() const {
  return threads > 0 ? resolve_threads(threads)
                     : std::max<std::size_t>(1, resolve_threads(0) / ranks().here());
}

double TrainOptions::step_at(std::uint64_t epoch) const {
  // The solvers need a step above zero. The smallest normal number changes nothing.
  return std::max(step * std::pow(decay, static_cast<double>(epoch)), std::numeric_limits<double>::min());
}

}  // namespace truemax

#include "train/warm_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "ranks/ranks.hpp"
#include "rule/methods.hpp"
#include "solve/log_sum.hpp"
#include "weights/fast_tile.hpp"
#include "weights/kernels.hpp"
#include "weights/pass.hpp"
#include "weights/pass_over_ranks.hpp"

namespace truemax {
namespace {

// The intercepts of all classes of the model, whichever rank has them.
std::vector<float> all_intercepts(const Weights& weights) {
  const std::span<const float> own =
      weights.intercept().first(weights.has_intercept() ? weights.classes() : 0);
  const BlockShare* const share = weights.share();
  if (share == nullptr || own.empty()) return {own.begin(), own.end()};
  std::vector<float> all(share->all_classes(), 0.0F);
  for (ClassId k = 0; k < own.size(); ++k) all[share->global_class(k)] = own[k];
  ranks().sum(all);  // of all ranks but the owner: zeros
  return all;
}

// Sets the intercepts of known classes to those of the model, and moves the others by as much as the log-sum
// of the known ones moved, so that the share of new classes stays what it was.
void start_intercepts(const Model& start, std::span<const ClassId> known, Weights& weights) {
  std::vector<float> intercept = all_intercepts(weights);
  const std::vector<float> of_start = all_intercepts(start.weights);
  const auto start_of = [&](ClassId k) { return of_start.empty() ? 0.0 : static_cast<double>(of_start[k]); };
  std::vector<double> here, there;
  for (ClassId k = 0; k < known.size(); ++k) {
    if (known[k] == kUnseenClass) continue;
    here.push_back(static_cast<double>(intercept[k]));
    there.push_back(start_of(known[k]));
  }
  const std::vector<double> ones(here.size(), 1.0);
  const auto log_sum = [&](const std::vector<double>& b) {
    return log_weighted_sum_exp(b.data(), ones.data(), b.size(), 0);
  };
  const double moved = here.empty() ? 0 : log_sum(there) - log_sum(here);
  for (ClassId k = 0; k < known.size(); ++k)
    if (const auto own = own_number(weights, k))
      weights.intercept()[*own] = static_cast<float>(
          known[k] == kUnseenClass ? static_cast<double>(intercept[k]) + moved : start_of(known[k]));
}

// The scores of the labels of a slice, if several ranks have the weights.
std::vector<double> label_scores(const DataView& rows, const RowSlice& slice, const Weights& weights) {
  if (rows.shares_inputs()) return {};
  std::vector<std::uint32_t> row;
  std::vector<ClassId> label;
  std::size_t next = slice.first_example(0);
  for (std::size_t r = 0; r < slice.rows(); ++r) {
    const IdRange<ExampleId> examples = slice.examples(r, next);
    next += examples.size();
    for (const ExampleId i : examples) {
      row.push_back(static_cast<std::uint32_t>(r));
      label.push_back(rows.label(i));
    }
  }
  return scores_over_ranks(ranks(), weights, slice.x(), row, label);
}

// u = -log p_y of every example, or the log-normaliser of an input that examples share.
void exact_losses(const DataView& rows, std::size_t threads, RunState& state) {
  constexpr std::size_t kSlice = 4096;
  const Weights& weights = state.weights;
  const bool shared = weights.share() != nullptr;
  Csr scratch;
  PassResult pass;
  for (std::size_t first = 0; first < rows.row_count();) {
    const RowSlice slice = rows.slice(first, kSlice, scratch);
    const PassOptions recipe{.top = 1, .threads = threads, .tie_rank = {}};
    std::vector<double> scores;  // of the examples in turn
    if (shared) {
      pass_over_ranks(ranks(), weights, slice.x(), recipe, pass);
      scores = label_scores(rows, slice, weights);
    } else {
      softmax_pass(weights, slice.x(), recipe, pass);
    }
    std::size_t next = slice.first_example(0), number = 0;
    for (std::size_t r = 0; r < slice.rows(); ++r) {
      const IdRange<ExampleId> examples = slice.examples(r, next);
      next += examples.size();
      if (rows.shares_inputs()) {
        for (const ExampleId i : examples) state.rows[rows.input_of(i)].u = pass.loss(r, 0);
        continue;
      }
      for (const ExampleId i : examples)
        state.row(i).u = std::max(
            0.0, pass.loss(r, shared ? scores[number++] : score(weights, slice.x().row(r), rows.label(i))));
    }
    first += slice.rows();
  }
}

constexpr FeatureId kNoFeature = 0xFFFFFFFFU;

std::unordered_map<std::string_view, FeatureId> numbered(const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, FeatureId> numbers(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], static_cast<FeatureId>(i));
  return numbers;
}

// Copies the numbers of known names from `first_there` on to those from `first_here` on.
void match(const std::vector<std::string>& there, FeatureId first_there, const std::vector<std::string>& here,
           FeatureId first_here, std::span<FeatureId> known) {
  const auto numbers = numbered(there);
  for (std::size_t i = 0; i < here.size(); ++i)
    if (const auto found = numbers.find(here[i]); found != numbers.end())
      known[first_here + i] = first_there + found->second;
}

// By feature of the data: that of the model, or kNoFeature.
std::vector<FeatureId> known_features(const Model& start, const DataView& data) {
  const FeatureSpace &there = *start.space, &here = *data.space;
  std::vector<FeatureId> known(here.features, kNoFeature);
  if (here.of_triples()) {
    match(start.classes->names(), 0, data.classes->names(), 0, known);
    const auto entities_there = static_cast<FeatureId>(start.classes->size());
    const auto entities_here = static_cast<FeatureId>(data.classes->size());
    for (const FeatureId inverse : {0U, 1U})
      match(there.relations, entities_there + inverse * static_cast<FeatureId>(there.relations.size()),
            here.relations, entities_here + inverse * static_cast<FeatureId>(here.relations.size()), known);
    return known;
  }
  if (here.words.empty() || here.hashed_words) {
    for (FeatureId f = 0; f < std::min(there.features, here.features); ++f) known[f] = f;
    return known;
  }
  match(there.words, 0, here.words, 0, known);
  for (std::size_t i = 0; i < here.buckets.size(); ++i) {
    const auto at = std::lower_bound(there.buckets.begin(), there.buckets.end(), here.buckets[i]);
    if (at != there.buckets.end() && *at == here.buckets[i])
      known[here.words.size() + i] =
          static_cast<FeatureId>(there.words.size()) + static_cast<FeatureId>(at - there.buckets.begin());
  }
  return known;
}

// Vectors of features that the model lacks keep their random start.
void start_vectors(const Model& start, const DataView& data, EncoderTables& tables) {
  const std::vector<FeatureId> known = known_features(start, data);
  for (FeatureId f = 0; f < known.size(); ++f) {
    if (known[f] == kNoFeature || (tables.share && !tables.share->owns_class(f))) continue;
    std::copy_n(start.encoder.features.row(known[f]), tables.features.columns,
                tables.features.row(tables.share ? tables.share->local_class(f) : f));
  }
  tables.mixing.numbers = start.encoder.mixing.numbers;
}

// Calls put(k, weights of class k) for the classes of the model. Over several ranks everyone sees the classes
// of all of them in turn, since those of the data may be shared out otherwise.
template <class Put>
void each_class(const Weights& of, const Put& put) {
  const BlockShare* const share = of.share();
  const std::size_t columns = of.features();
  std::vector<float> rows(columns);
  if (share == nullptr) {
    for (ClassId k = 0; k < of.classes(); ++k) {
      of.copy_class(k, rows);
      put(k, std::span<const float>(rows));
    }
    return;
  }
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const std::size_t most = std::max<std::size_t>(1, kBytes / (columns * sizeof(float)));
  for (std::size_t rank = 0; rank < ranks().size(); ++rank)
    for (std::size_t first = 0, all = share->classes_of(rank); first < all; first += most) {
      const std::size_t count = std::min(most, all - first);
      rows.resize(count * columns);
      if (rank == ranks().rank())
        for (std::size_t i = 0; i < count; ++i)
          of.copy_class(static_cast<ClassId>(first + i), std::span(rows).subspan(i * columns, columns));
      ranks().broadcast(std::as_writable_bytes(std::span(rows)), rank);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t local = first + i;
        put(static_cast<ClassId>(share->global(rank, local / kBlockClasses) * kBlockClasses +
                                 local % kBlockClasses),
            std::span<const float>(rows).subspan(i * columns, columns));
      }
    }
}

// Weights of features that the model lacks are 0.
void start_classes(const Model& start, const DataView& data, std::span<const ClassId> known,
                   RunState& state) {
  const bool learnt = !state.learnt.empty();
  const std::vector<FeatureId> features = learnt ? std::vector<FeatureId>() : known_features(start, data);
  std::vector<ClassId> class_here(start.classes->size(), kUnseenClass);
  for (ClassId k = 0; k < known.size(); ++k)
    if (known[k] != kUnseenClass) class_here[known[k]] = k;
  std::vector<float> here(state.weights.features());
  each_class(start.weights, [&](ClassId of_start, std::span<const float> there) {
    if (class_here[of_start] == kUnseenClass) return;
    const auto own = own_number(state.weights, class_here[of_start]);
    if (!own) return;
    if (learnt)
      here.assign(there.begin(), there.end());
    else
      for (std::size_t f = 0; f < here.size(); ++f)
        here[f] = features[f] == kNoFeature ? 0.0F : there[features[f]];
    state.weights.set_class(*own, here);
    if (learnt && !state.learnt.tied()) std::copy(here.begin(), here.end(), state.learnt.classes.row(*own));
  });
}

std::uint64_t option_of(const Model& start, const char* name) {
  const auto found = start.options.find(name);
  if (found == start.options.end()) return 0;
  return found->is_boolean() ? std::uint64_t{found->get<bool>()}
                             : (found->is_number_unsigned() ? found->get<std::uint64_t>() : 0);
}

bool learns(const Model& start) {
  return !start.encoder.empty();
}

}  // namespace

void require_start(const Model& start, const DataView& data) {
  const FeatureSpace &there = *start.space, &here = *data.space;
  const auto refuse = [](const std::string& why) {
    throw UserError(
        fmt::format("the model to start from {}; give data like those it was trained on, or leave the model "
                    "out",
                    why));
  };
  if (there.of_triples() != here.of_triples())
    refuse(there.of_triples() ? "is of triples, and the data are not"
                              : "is not of triples, and the data are");
  if (reads_words(there.encoder) != reads_words(here.encoder))
    refuse(reads_words(there.encoder) ? "is of plain text, and the data are not"
                                      : "is not of plain text, and the data are");
  if (reads_words(here.encoder) && (there.encoder != here.encoder || there.context != here.context))
    refuse(fmt::format("has contexts of {} words, or another encoder", there.context));
  if (there.words.empty() != here.words.empty() || there.hashed_words != here.hashed_words)
    refuse(there.of_words() ? "has words as features, and the data have none, or they are hashed otherwise"
                            : "has features without names, and those of the data are words");
}

void require_same_features(const Model& start, const DataView& data) {
  if (start.space->features != data.space->features || start.space->words != data.space->words ||
      start.space->buckets != data.space->buckets)
    throw UserError(fmt::format(
        "the model to start from has {} features, the data {}, or they have other names; give data with the "
        "features of the model",
        start.space->features, data.space->features));
}

Start::Shape shape_of(const Model& start) {
  return {.learnt = learns(start),
          .tied = option_of(start, "tied") == 1,
          .intercept = start.weights.has_intercept(),
          .hidden = learns(start) ? start.weights.features() : 0,
          .layers = learns(start) ? start.encoder.layers : 0,
          .encoder = start.space->encoder,
          .of_triples = start.space->of_triples()};
}

void continue_reading(const Model& start, const std::function<bool(const char* option)>& given,
                      ReadOptions& read, PreprocessOptions& preprocess, std::vector<std::string>& notes) {
  const auto wrong = [&](bool of_model, Format format, const char* what) {
    if (of_model && read.format != Format::automatic && read.format != Format::cache && read.format != format)
      throw UserError(
          fmt::format("the model to start from is of {}, and --format is {}; give such data, or "
                      "leave the model out",
                      what, format_name(read.format)));
  };
  wrong(reads_words(start.space->encoder), Format::text, "plain text");
  wrong(start.space->of_triples(), Format::triples, "triples");
  if (read.format == Format::automatic) {
    if (reads_words(start.space->encoder)) read.format = Format::text;
    if (start.space->of_triples()) read.format = Format::triples;
  }
  PreprocessOptions there = start.preprocess;
  OptionTable from, to;
  there.describe(from);
  preprocess.describe(to);
  for (const Option& option : to.options()) {
    const auto of_model = from.find(option.name)->to_json();
    const auto shown = [&] { return of_model.is_string() ? of_model.get<std::string>() : of_model.dump(); };
    const bool free = option.name == "labels" || option.name == "normalize" || option.name == "min-count";
    if (!given(option.name.c_str()))
      option.from_json(of_model);
    else if (!free && option.to_json() != of_model)
      throw UserError(fmt::format("--{0}: the model to start from has {1}; give --{0} {1}, or leave it out",
                                  option.name, shown()));
    else if (option.name == "normalize" && option.to_json() != of_model)
      notes.push_back(fmt::format(
          "--normalize: the model to start from was trained with {0}, and its weights fit such rows; leave "
          "--normalize out to keep {0}",
          shown()));
  }
}

StartMatch require_match(const Model& start, const DataView& data) {
  StartMatch match;
  for (const std::string& name : data.classes->names())
    if (start.classes->find(name) != kUnseenClass) ++match.classes;
  for (const FeatureId f : known_features(start, data))
    if (f != kNoFeature) ++match.features;
  if (match.features == 0 || (match.classes == 0 && !learns(start)))
    throw UserError(
        fmt::format("the model to start from and the data have no {} in common, and it would change nothing; "
                    "give data like "
                    "those it was trained on, or leave the model out",
                    match.features == 0 ? "feature" : "class"));
  return match;
}

void start_from(const Model& start, const DataView& data, const Recipe& recipe, RunState& state) {
  std::vector<ClassId> known;
  for (const std::string& name : data.classes->names()) known.push_back(start.classes->find(name));
  start_classes(start, data, known, state);
  if (recipe.intercept) start_intercepts(start, known, state.weights);
  state.largest_weight = ranks().max_of(state.weights.largest());
  DataView rows = data;
  if (!state.learnt.empty()) {
    EncoderTables& tables = state.learnt.tables;
    start_vectors(start, data, tables);
    if (recipe.intercept)
      std::copy_n(state.weights.intercept().begin(), state.weights.classes(), state.learnt.intercept.begin());
    state.largest_weight =
        std::max(state.largest_weight, ranks().max_of(static_cast<double>(largest_absolute(
                                           tables.features.numbers.data(), tables.features.numbers.size()))));
    rows = data.encoded(make_row_encoder(data.space->encoder, tables));
  }
  if (find_method(recipe.method).exact_start) exact_losses(rows, recipe.thread_count(), state);
}

}  // namespace truemax

#include "model/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/text_ngrams.hpp"

namespace truemax {
namespace {

bool has_blank(std::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
}

// The format has no quotes: a blank would end the name.
void require_plain_names(const NamedVectors& vectors) {
  for (std::size_t i = 0; i < vectors.size(); ++i)
    if (const std::string name = vectors.name(i); name.empty() || has_blank(name))
      throw UserError(
          fmt::format("the name {} {}, which word2vec text cannot hold; rename it in the training data, or "
                      "read the tensors of the model file (docs/model-file.md)",
                      in_quotes(name), name.empty() ? "is empty" : "has a blank"));
}

constexpr const char* kInverse = "^-1";  // after the name of a relation

}  // namespace

Model load_learnt_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads) {
  if (read_model_metadata(path)["hidden"] == 0)
    throw file_error(path, 0, "is a linear model, which has no learnt vectors",
                     "train with --hidden, as in: truemax train DATA --hidden 64");
  return load_model(path, memory_limit, threads);
}

NamedVectors::NamedVectors(const Model& model, VectorsOf of) : model_(model), of_(of) {
  const FeatureSpace& space = *model.space;
  if (of == VectorsOf::classes) {
    classes_ = model.classes->by_name();
    size_ = classes_.size();
    return;
  }
  if (of == VectorsOf::ngrams) {
    size_ = space.buckets.size();
    if (size_ == 0)
      throw UserError(
          "the model has no n-grams with vectors of their own; train with --word-ngrams or --char-ngrams, "
          "and "
          "without --hash-features");
    return;
  }
  if (space.of_triples())
    for (const std::string& relation : space.relations) words_.add(relation);
  size_ = space.words.empty() ? space.features : space.words.size();
  for (const std::string& word : space.words) words_.add(word);
  const auto first = static_cast<FeatureId>(space.words.size());
  if (!space.buckets.empty())
    buckets_ = BucketNumbers(model.preprocess.ngrams().buckets, first, space.buckets);
}

std::string NamedVectors::name(std::size_t i) const {
  const FeatureSpace& space = *model_.space;
  if (of_ == VectorsOf::classes) return model_.classes->name(classes_[i]);
  if (of_ == VectorsOf::ngrams) return fmt::format_int(space.buckets[i]).str();
  if (space.of_triples()) {
    const std::size_t entities = model_.classes->size(), relations = space.relations.size();
    if (i < entities) return model_.classes->name(static_cast<ClassId>(i));
    return i < entities + relations ? space.relations[i - entities]
                                    : space.relations[i - entities - relations] + kInverse;
  }
  return space.words.empty() ? fmt::format_int(i).str() : space.words[i];
}

// An entity, else a relation, else the inverse of one.
std::optional<std::size_t> NamedVectors::find_of_triples(std::string_view name) const {
  const std::size_t entities = model_.classes->size();
  if (const ClassId k = model_.classes->find(name); k != kUnseenClass) return k;
  if (const std::uint32_t r = words_.find(name); r != NameViews::kNone) return entities + r;
  if (!name.ends_with(kInverse)) return std::nullopt;
  name.remove_suffix(std::string_view(kInverse).size());
  const std::uint32_t r = words_.find(name);
  if (r == NameViews::kNone) return std::nullopt;
  return entities + model_.space->relations.size() + r;
}

std::optional<std::size_t> NamedVectors::find(std::string_view name) const {
  if (of_ == VectorsOf::classes) {
    const ClassId k = model_.classes->find(name);
    if (k == kUnseenClass) return std::nullopt;
    return static_cast<std::size_t>(std::find(classes_.begin(), classes_.end(), k) - classes_.begin());
  }
  if (of_ == VectorsOf::words && model_.space->of_triples()) return find_of_triples(name);
  if (of_ == VectorsOf::words && !model_.space->words.empty()) {
    const std::uint32_t number = words_.find(name);
    return number == NameViews::kNone ? std::nullopt : std::optional<std::size_t>(number);
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || name != fmt::format_int(number).str())
    return std::nullopt;
  if (of_ == VectorsOf::words) return number < size_ ? std::optional<std::size_t>(number) : std::nullopt;
  const std::vector<std::uint32_t>& buckets = model_.space->buckets;
  const auto at = std::lower_bound(buckets.begin(), buckets.end(), number);
  if (at == buckets.end() || *at != number) return std::nullopt;
  return static_cast<std::size_t>(at - buckets.begin());
}

void NamedVectors::copy(std::size_t i, std::span<float> out) const {
  if (of_ == VectorsOf::classes) return model_.weights.copy_class(classes_[i], out);
  const std::size_t row = of_ == VectorsOf::ngrams ? model_.space->words.size() + i : i;
  std::copy_n(model_.encoder.features.row(row), out.size(), out.begin());
  if (of_ == VectorsOf::words && !model_.space->buckets.empty())
    add_ngrams(model_.space->words[i], out, nullptr);
}

bool NamedVectors::compose(std::string_view word, std::span<float> out) const {
  if (of_ != VectorsOf::words || model_.space->buckets.empty()) return false;
  std::fill(out.begin(), out.end(), 0.0F);
  std::size_t known = 0;
  add_ngrams(word, out, &known);
  return known > 0;
}

// A row of one word has no runs of words. Each n-gram counts as often as it occurs.
void NamedVectors::add_ngrams(std::string_view word, std::span<float> out, std::size_t* known) const {
  NgramRule rule = model_.preprocess.ngrams();
  rule.words = 1;
  if (!rule.any()) return;
  std::vector<FeatureId> found;
  MemoryCharge unlimited;
  LineNgrams(rule, nullptr).add_word(word, found, unlimited);
  std::sort(found.begin(), found.end());
  for (const FeatureId bucket : found) {
    const FeatureId feature = buckets_.find(bucket - kFirstBucket);
    if (feature == kDropFeature) continue;
    add_scaled(out.data(), model_.encoder.features.row(feature), 1, out.size());
    if (known != nullptr) ++*known;
  }
}

std::string NamedVectors::nearest_spelling(std::string_view typed) const {
  std::string best;
  std::size_t distance = 3;
  for (std::size_t i = 0; i < size_; ++i) {
    const std::string candidate = name(i);
    const std::size_t longer = std::max(candidate.size(), typed.size());
    if (longer - std::min(candidate.size(), typed.size()) >= distance) continue;
    if (const std::size_t d = edit_distance(candidate, typed); d < distance) distance = d, best = candidate;
  }
  return best;
}

bool write_vectors(const NamedVectors& vectors, const std::function<void(std::string_view)>& sink,
                   const std::atomic<bool>& stop) {
  constexpr std::size_t kChunk = 1U << 20;
  require_plain_names(vectors);
  fmt::memory_buffer text;
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "{} {}\n", vectors.size(), vectors.columns());
  std::vector<float> row(vectors.columns());
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    vectors.copy(i, row);
    fmt::format_to(to, "{}", vectors.name(i));
    for (const float number : row) fmt::format_to(to, " {}", number);
    text.push_back('\n');
    if (text.size() < kChunk) continue;
    if (stop.load()) return false;
    sink({text.data(), text.size()});
    text.clear();
  }
  sink({text.data(), text.size()});
  return !stop.load();
}

std::vector<Neighbour> nearest_vectors(const NamedVectors& vectors, std::span<const float> query,
                                       std::optional<std::size_t> except, std::size_t top,
                                       std::size_t threads) {
  constexpr std::size_t kRows = 1024;  // per chunk
  std::vector<Neighbour> all(vectors.size());
  parallel_for((all.size() + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
    std::vector<float> row(vectors.columns());
    for (std::size_t i = chunk * kRows; i < std::min(all.size(), (chunk + 1) * kRows); ++i) {
      vectors.copy(i, row);
      all[i] = {i, i == except ? -2 : cosine_of(row, query)};
    }
  });
  std::erase_if(all, [](const Neighbour& n) { return n.cosine < -1; });
  const auto kept = all.begin() + static_cast<std::ptrdiff_t>(std::min(top, all.size()));
  std::partial_sort(all.begin(), kept, all.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.cosine != b.cosine ? a.cosine > b.cosine : a.number < b.number;
  });
  all.erase(kept, all.end());
  return all;
}

}  // namespace truemax

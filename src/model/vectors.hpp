// The vectors of words and classes in a model with learnt features: by name, as text, and nearest ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/names.hpp"
#include "data/text_buckets.hpp"
#include "model/model.hpp"

namespace truemax {

enum class VectorsOf { words, ngrams, classes };

// load_model for a model with learnt features; a linear one is refused before its weights are read.
Model load_learnt_model(const std::string& path, std::uint64_t memory_limit, std::size_t threads);

// Vectors with names. The model outlives them.
// - words: x of a row that holds only this word, before --normalize: its row of `embedding`, plus those of
// its
//   character n-grams if the model has them. Features without words are named by their number, from 0.
// - ngrams: the rows of `embedding` after the words, named by their bucket.
// - classes: the rows of `weight`, in the order of the model file, without the intercept.
class NamedVectors {
 public:
  NamedVectors(const Model& model, VectorsOf of);

  std::size_t size() const { return size_; }
  std::size_t columns() const { return model_.encoder.features.columns; }
  std::string name(std::size_t i) const;
  std::optional<std::size_t> find(std::string_view name) const;
  void copy(std::size_t i, std::span<float> out) const;
  // The vector of a word that the model does not know, from its character n-grams; false if it has none.
  bool compose(std::string_view word, std::span<float> out) const;
  // The name that differs least from this one, at most by two bytes; empty if there is none.
  std::string nearest_spelling(std::string_view name) const;

 private:
  std::optional<std::size_t> find_of_triples(std::string_view name) const;
  void add_ngrams(std::string_view word, std::span<float> out, std::size_t* known) const;

  const Model& model_;
  VectorsOf of_;
  std::size_t size_ = 0;
  std::vector<ClassId> classes_;  // by row of the model file
  NameViews words_;
  BucketNumbers buckets_;
};

// The word2vec text format: "rows columns", then lines of a name and its numbers, each with the digits that
// give the same float32 back. Throws UserError, before it writes, if a name has blanks. False if stopped.
bool write_vectors(const NamedVectors& vectors, const std::function<void(std::string_view)>& sink,
                   const std::atomic<bool>& stop);

struct Neighbour {
  std::size_t number = 0;  // in the NamedVectors
  double cosine = 0;
};

// The `top` vectors with the largest cosine to `query`, in double; ties by number. Vectors of length zero
// have no cosine and are left out, and so is number `except`.
std::vector<Neighbour> nearest_vectors(const NamedVectors& vectors, std::span<const float> query,
                                       std::optional<std::size_t> except, std::size_t top,
                                       std::size_t threads);

}  // namespace truemax

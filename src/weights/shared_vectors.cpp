#include "weights/shared_vectors.hpp"

#include <algorithm>

#include "weights/complex.hpp"

namespace truemax {
namespace {

constexpr std::uint32_t kNotFetched = 0xFFFFFFFF;

bool is_sum(EncoderKind kind) {
  return !mixes_places(kind) && kind != EncoderKind::complex;
}

}  // namespace

SharedVectors::SharedVectors(EncoderKind kind, const BlockShare& share, std::size_t h)
    : share_(share), adds_up_(is_sum(kind)) {
  if (!adds_up_) place_.assign(share.all_classes(), kNotFetched);
  fetched_.columns = h;
  clear();
}

void SharedVectors::reserve(std::size_t rows, std::size_t uses) {
  rows_.begin.reserve(rows + 1);
  rows_.index.reserve(uses);
  rows_.value.reserve(uses);
  if (adds_up_) return;
  const std::size_t most = std::min(uses, share_.all_classes());
  used_.reserve(most);
  own_.reserve(most);
  fetched_.numbers.reserve(most * fetched_.columns);
}

std::uint64_t SharedVectors::bytes(EncoderKind kind, std::uint64_t features, std::uint64_t uses,
                                   std::uint64_t h) {
  const std::uint64_t rows = uses * (sizeof(FeatureId) + sizeof(float));
  if (is_sum(kind)) return rows;
  return rows + features * sizeof(std::uint32_t) +
         std::min(uses, features) * (2 * sizeof(FeatureId) + h * sizeof(float));
}

void SharedVectors::clear() {
  for (const FeatureId f : used_) place_[f] = kNotFetched;
  used_.clear();
  own_.clear();
  rows_.begin.assign(1, 0);
  rows_.index.clear();
  rows_.value.clear();
}

FeatureId SharedVectors::number_of_vector(FeatureId f) {
  const FeatureId own = share_.owns_class(f) ? share_.local_class(f) : kNotOwn;
  if (adds_up_) return own;
  if (place_[f] == kNotFetched) {
    place_[f] = static_cast<std::uint32_t>(used_.size());
    used_.push_back(f);
    own_.push_back(own);
  }
  return place_[f];
}

void SharedVectors::add(RowView x) {
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const FeatureId v = number_of_vector(x.index[j]);
    if (v == kNotOwn) continue;
    rows_.index.push_back(v);
    rows_.value.push_back(x.value[j]);
  }
  rows_.begin.push_back(rows_.index.size());
}

// Of every vector all ranks but one send zeros, so the sum is exact.
void SharedVectors::fetch(Ranks& ranks, const Embedding& own) {
  vectors_ = &own;
  if (adds_up_) return;
  const std::size_t h = fetched_.columns;
  fetched_.rows = used_.size();
  fetched_.numbers.assign(used_.size() * h, 0.0F);
  for (std::size_t v = 0; v < used_.size(); ++v)
    if (own_[v] != kNotOwn) std::copy_n(own.row(own_[v]), h, fetched_.row(v));
  ranks.sum(fetched_.numbers);
  vectors_ = &fetched_;
}

void RowsOverRanks::encode(CsrView rows, float* out) const {
  constexpr std::size_t kPiece = 1024;  // rows whose vectors are held at once
  const std::size_t h = columns();
  SharedVectors shared(kind_, *tables_.share, h);
  for (std::size_t first = 0; first < rows.rows(); first += kPiece) {
    const std::size_t count = std::min(kPiece, rows.rows() - first);
    float* const to = out + first * h;
    shared.clear();
    for (std::size_t r = 0; r < count; ++r) shared.add(rows.row(first + r));
    shared.fetch(ranks(), tables_.features);
    if (mixes_places(kind_))
      ContextRows(shared.vectors(), tables_).encode(shared.rows(), to);
    else if (kind_ == EncoderKind::complex)
      ComplexRows(shared.vectors()).encode(shared.rows(), to);
    else
      BagRows(shared.vectors()).encode(shared.rows(), to);
    if (shared.adds_up()) ranks().sum(std::span(to, count * h));
  }
}

}  // namespace truemax

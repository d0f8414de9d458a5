#include "weights/embedding.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "core/parallel.hpp"
#include "core/random.hpp"
#include "weights/complex.hpp"
#include "weights/shared_vectors.hpp"

namespace truemax {

double cosine_of(std::span<const float> a, std::span<const float> b) {
  double product = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    product += x * y;
    square_a += x * x;
    square_b += y * y;
  }
  const double lengths = std::sqrt(square_a) * std::sqrt(square_b);
  return lengths > 0 ? std::clamp(product / lengths, -1.0, 1.0) : -2;
}

void side_by_side(RowView words, const Embedding& vectors, float* out) {
  for (std::size_t p = 0; p < words.index.size(); ++p)
    std::copy_n(vectors.row(words.index[p]), vectors.columns, out + p * vectors.columns);
}

void fill_normal(Embedding& table, double deviation, std::uint64_t seed, std::uint64_t number,
                 std::size_t threads, const BlockShare* share) {
  const CounterRandom random(seed, Stream::embedding, number);
  constexpr std::size_t kChunk = 256;  // rows
  parallel_for((table.rows + kChunk - 1) / kChunk, threads, [&](std::size_t chunk) {
    for (std::size_t r = chunk * kChunk; r < std::min(table.rows, (chunk + 1) * kChunk); ++r) {
      const std::size_t place = share != nullptr ? share->global_class(static_cast<ClassId>(r)) : r;
      for (std::size_t c = 0; c < table.columns; c += 4) {
        const CounterRandom::Block words = random.at(place, c / 4);
        const std::uint64_t of[4] = {words.first, words.second, words.third, words.fourth};
        for (std::size_t i = 0; i < 4 && c + i < table.columns; i += 2) {
          // Box and Muller: a length and an angle give two numbers.
          const double length = std::sqrt(-2 * std::log1p(-uniform_unit(of[i])));
          const double angle = 2 * std::numbers::pi * uniform_unit(of[i + 1]);
          table.row(r)[c + i] = static_cast<float>(deviation * length * std::cos(angle));
          if (c + i + 1 < table.columns)
            table.row(r)[c + i + 1] = static_cast<float>(deviation * length * std::sin(angle));
        }
      }
    }
  });
}

std::shared_ptr<const RowEncoder> make_row_encoder(EncoderKind kind, const EncoderTables& tables) {
  if (tables.share != nullptr) return std::make_shared<RowsOverRanks>(kind, tables);
  if (mixes_places(kind)) return std::make_shared<ContextRows>(tables.features, tables);
  if (kind == EncoderKind::complex) return std::make_shared<ComplexRows>(tables.features);
  return std::make_shared<BagRows>(tables.features);
}

void ContextRows::encode_row(RowView x, float* out) const {
  const std::size_t h = columns();
  std::fill(out, out + h, 0.0F);
  for (std::size_t p = 0; p < x.index.size(); ++p)
    add_product(out, features_.row(x.index[p]), mixing_.row(p), h);
}

void ContextRows::encode(CsrView rows, float* out) const {
  const std::size_t h = columns(), n = rows.rows();
  if (layers_ == 0) {
    for (std::size_t r = 0; r < n; ++r) encode_row(rows.row(r), out + r * h);
    return;
  }
  const Embedding& layer = mixing_;
  const std::size_t wide = layer.rows - 1;
  Team alone(1);
  DenseProduct product;
  constexpr std::size_t kRows = 256;  // at once
  std::vector<float> words(std::min(n, kRows) * wide);
  for (std::size_t first = 0; first < n; first += kRows) {
    const std::size_t count = std::min(kRows, n - first);
    for (std::size_t r = 0; r < count; ++r)
      side_by_side(rows.row(first + r), features_, words.data() + r * wide);
    product.multiply({{words.data(), count, wide, wide}, false}, {{layer.numbers.data(), wide, h, h}, false},
                     out + first * h, h, alone);
    for (std::size_t r = 0; r < count; ++r) tanh_row(out + (first + r) * h, layer.row(wide), h);
  }
}

}  // namespace truemax

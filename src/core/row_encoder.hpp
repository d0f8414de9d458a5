// Turns the sparse rows of the data into dense rows of learnt features.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/csr.hpp"
#include "core/error.hpp"

namespace truemax {

// What a row's numbers mean, and how they become learnt features.
enum class EncoderKind {
  automatic,  // to be chosen
  linear,     // features of the data as they are
  bag,        // the sum of the vectors of its features, times their values
  context,    // the words before a word, in order
  cbow,       // the words around a word: the mean of their vectors
  skipgram,   // a word, from which those around it are predicted, one by one
  complex,    // an entity and a relation: the product of their vectors of complex numbers
};

inline constexpr std::array<std::pair<const char*, EncoderKind>, 7> kEncoderNames{
    {{"auto", EncoderKind::automatic},
     {"linear", EncoderKind::linear},
     {"bag", EncoderKind::bag},
     {"context", EncoderKind::context},
     {"cbow", EncoderKind::cbow},
     {"skipgram", EncoderKind::skipgram},
     {"complex", EncoderKind::complex}}};

// The words of several places make a row, and each place has factors of its own.
inline bool mixes_places(EncoderKind kind) {
  return kind == EncoderKind::context || kind == EncoderKind::cbow;
}
inline bool reads_words(EncoderKind kind) {
  return mixes_places(kind) || kind == EncoderKind::skipgram;
}

class RowEncoder {
 public:
  RowEncoder() = default;
  virtual ~RowEncoder() = default;
  RowEncoder(const RowEncoder&) = delete;
  RowEncoder& operator=(const RowEncoder&) = delete;

  virtual std::size_t columns() const = 0;
  virtual void encode(CsrView rows, float* out) const = 0;  // out: [rows][columns()]
};

// The learnt features of a row are beyond float32. Scores of such a row would be infinite or NaN, and smaller
// features in their place would give other probabilities, so it is refused.
class RowBeyondFloat : public UserError {
 public:
  // `row`: of those to encode, from 0. `name`: what the user calls it.
  RowBeyondFloat(std::size_t row, const std::string& name, double largest);

  std::size_t row() const { return row_; }
  RowBeyondFloat named(const std::string& name) const { return {row_, name, largest_}; }

 private:
  std::size_t row_;
  double largest_;  // of its values
};

// The rows of `from`, encoded, in `to`. Throws RowBeyondFloat for the first row whose x is not finite.
void encode_rows(const RowEncoder& encoder, CsrView from, Csr& to, std::size_t threads = 1);

}  // namespace truemax

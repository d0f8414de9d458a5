// Turns the sparse rows of the data into dense rows of learnt features.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "core/csr.hpp"

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

// The rows of `from`, encoded, in `to`.
void encode_rows(const RowEncoder& encoder, CsrView from, Csr& to, std::size_t threads = 1);

}  // namespace truemax

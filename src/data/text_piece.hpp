// A separately parsed piece of a text file: the unit of parallel reading. Pieces are cut at fixed places, so
// their concatenation does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.hpp"
#include "data/names.hpp"
#include "data/options.hpp"
#include "data/raw_rows.hpp"
#include "data/scratch.hpp"

namespace truemax {

// Feature numbers are below this, so that the number of features fits in a FeatureId too.
// A longer name is a file without blanks, tabs or line ends.
inline constexpr std::size_t kLongestName = 1U << 16;
inline constexpr std::uint64_t kMostFeatures = 0xFFFFFFFFULL;

struct TextRules {
  Format format = Format::libsvm;
  std::uint64_t features = kMostFeatures;  // XMLRepository: D of the header
  std::uint64_t labels = ~0ULL;            // XMLRepository: L of the header
  bool labels_required = true;             // triples: every row has a tail
  NgramRule ngrams;                        // fastText
};

struct PieceError {
  std::uint64_t line = 0;  // in the piece, from 0
  std::string found, advice;
};

struct Piece {
  std::string_view text;     // whole lines, ending in a newline
  bool begins_file = false;  // the first line is that of the file

  // The rows before the first error, if any.
  std::vector<std::uint64_t> begin, label_begin;  // rows + 1 offsets each
  Scratch<FeatureId> index;
  Scratch<float> value;
  // A label that is a plain number below kPlainLabels stands for itself, so most files need no hashing; any
  // other label is kPlainLabels + its number in names.
  static constexpr std::uint32_t kPlainLabels = 1U << 20;
  std::vector<std::uint32_t> label;
  NameViews names, words;
  std::deque<std::string> made_names;  // names not literally in the text ("+1" is "1")
  std::vector<LineMark> lines;         // lines from 0 in the piece
  std::uint64_t line_count = 0;
  // The rows at which the largest feature number + 1 rises. Explicit zeros count: they can state the number
  // of features.
  struct Width {
    std::uint64_t row, features;
  };
  std::vector<Width> widths;
  bool has_qid = false;
  std::optional<PieceError> error;

  Piece() = default;
  explicit Piece(const std::shared_ptr<MemoryBudget>& memory)
      : index(memory), value(memory), charge_(memory) {}
  std::size_t rows() const { return begin.size() - 1; }
  // Upper bound on the features in the text, each with at least `least` bytes and one byte that is a mark.
  template <class IsMark>
  std::size_t most_features(std::size_t least, const IsMark& is_mark) const {
    constexpr std::size_t kLongLine = 8U << 20;  // counting pays only if the bound is large
    if (text.size() < kLongLine) return text.size() / least + 1;
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_mark)) + 1;
  }
  const std::shared_ptr<MemoryBudget>& budget() const { return charge_.budget(); }
  // Charges the piece's memory outside its scratch arrays, plus `more` bytes. Throws OverBudget.
  void charge(std::uint64_t more = 0) { charge_.set(bytes() + more); }
  void clear();
  // Adds a label to the current row.
  void add_label(std::uint32_t plain) {
    if (label.size() == label.capacity()) make_room_for_labels();
    label.push_back(plain);
  }
  void add_label(std::string_view name) { add_label(kPlainLabels + add_name(names, name)); }
  // The number of a name. A new name must be UTF-8.
  std::uint32_t add_name(NameViews& table, std::string_view name);
  // Ends the current row: its features end at `features_end`, and duplicate labels are dropped.
  void end_row(std::uint64_t features_end);
  std::uint64_t line_of(std::uint64_t row) const;

 private:
  std::uint64_t bytes() const;
  void make_room_for_labels();
  MemoryCharge charge_;
};

// Parses piece.text into the piece with one of the functions below.
void parse_piece(Piece& piece, const TextRules& rules);
void parse_sparse_piece(Piece& piece, const TextRules& rules);  // xmlrepository, lshtc, libsvm
void parse_fasttext_piece(Piece& piece, const TextRules& rules);
// Every word in order, and kLineEnd after each line.
void parse_plain_piece(Piece& piece);
inline constexpr std::string_view kLineEnd = "<eos>", kUnknownWord = "<unk>";
void parse_triples_piece(Piece& piece, const TextRules& rules);

}  // namespace truemax

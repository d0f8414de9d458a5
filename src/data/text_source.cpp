// Text rows: windows of lines, cut into pieces that are parsed in parallel while the next window is read.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/sniff.hpp"
#include "data/sources.hpp"
#include "data/text_lines.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

// The names of one batch, and the numbers in it of the current piece's names.
class BatchNames {
 public:
  // `later`: bytes that each name will take after reading.
  BatchNames(const std::shared_ptr<MemoryBudget>& memory, std::uint64_t later)
      : charge_(memory), later_(later) {}

  void begin_piece(const NameViews& names) {
    piece_ = &names;
    make_room();
    map_.assign(names.size(), NameStore::kNone);
  }
  std::uint32_t number_of_name(std::uint32_t i) {
    if (map_[i] == NameStore::kNone) map_[i] = names_.add((*piece_)[i], piece_->hash(i));
    return map_[i];
  }
  std::uint32_t number_of_label(std::uint32_t label) {
    if (label >= Piece::kPlainLabels) return number_of_name(label - Piece::kPlainLabels);
    if (label >= plain_.size())
      plain_.resize(std::max<std::size_t>(label + 1, 2 * plain_.size()), NameStore::kNone);
    if (plain_[label] == NameStore::kNone) plain_[label] = names_.add(fmt::format_int(label).str());
    return plain_[label];
  }
  std::size_t size() const { return names_.size(); }
  // Takes the names and adds their memory to the charge.
  std::vector<std::string> take(MemoryCharge& charge) {
    std::vector<std::string> names = names_.take_names();
    const std::uint64_t bytes = charge_.bytes();
    charge_.release();
    charge.add(bytes);
    return names;
  }

 private:
  // Charges what the names of a piece may add, before they are added.
  void make_room() {
    const auto charge = [this](std::size_t more, std::uint64_t text) {
      charge_.set(names_.bytes_with(more, text) + (names_.size() + more) * later_);
    };
    const auto length_of = [this](std::uint32_t i) { return (*piece_)[i].size() + 1; };
    try {
      std::uint64_t text = 0;
      for (std::uint32_t i = 0; i < piece_->size(); ++i) text += length_of(i);
      charge(piece_->size(), text);
    } catch (const OverBudget&) {
      // Most names are known already. Looking them up twice is slow, so count the new ones only if needed.
      std::size_t more = 0;
      std::uint64_t text = 0;
      for (std::uint32_t i = 0; i < piece_->size(); ++i)
        if (names_.find((*piece_)[i]) == NameStore::kNone) ++more, text += length_of(i);
      charge(more, text);
    }
  }

  NameStore names_;
  MemoryCharge charge_;
  std::uint64_t later_;
  const NameViews* piece_ = nullptr;
  std::vector<std::uint32_t> map_;    // of the piece's names
  std::vector<std::uint32_t> plain_;  // of labels that are plain numbers
};

class TextSource : public RowSource {
 public:
  TextSource(Input input, Format format, const StreamOptions& stream, std::vector<std::string>& notes)
      : input_(std::move(input)),
        stream_(stream),
        threads_(std::max<std::size_t>(1, stream.threads)),
        window_bytes_(bounded_window(stream, threads_)),
        windows_(input_, window_bytes_, stream.memory, stream.live),
        piece_bytes_(std::clamp<std::size_t>(window_bytes_ / (2 * threads_), 1,
                                             std::max<std::size_t>(1, stream.piece))),
        notes_(&notes),
        window_(stream.memory),
        next_(stream.memory) {
    rules_.format = format;
    rules_.labels_required = stream.labels_required;
    rules_.ngrams = stream.ngrams;
    read_first(true);
    if (next_text_.starts_with(kByteOrderMark))  // one: a second one belongs to the first name
      next_text_.remove_prefix(kByteOrderMark.size());
    if (format == Format::xmlrepository) read_header();
  }

  void read(RawRows& batch, std::uint64_t most) override {
    batch.path = input_.name();
    batch.format = rules_.format;
    batch.memory = MemoryCharge(stream_.memory);
    try {
      read_batch(batch, most);
    } catch (const OverBudget& over) {
      throw refusal(over);
    }
    if (header_) {
      batch.features = header_->features;
      batch.declared = true;
    } else {
      batch.features = has_words(rules_.format) ? batch.words.size() : features_;
    }
    if (at_end_) check_row_count();
  }

  double progress() const override { return progress_; }

 private:
  // A parsed window takes about ten times its text, rarely more: use a part of the memory left.
  static std::size_t bounded_window(const StreamOptions& stream, std::size_t threads) {
    constexpr std::uint64_t kLeast = 1U << 16, kShare = 64;
    const std::uint64_t wanted = std::max<std::uint64_t>(1, threads * stream.window);
    const std::uint64_t share = kShare * features_per_word(stream.ngrams);
    return static_cast<std::size_t>(
        stream.memory ? std::min(wanted, std::max(kLeast, stream.memory->left() / share)) : wanted);
  }

  void read_batch(RawRows& batch, std::uint64_t most) {
    // Classes are listed twice, by name and by number; words are counted and sorted.
    constexpr std::uint64_t kLaterClass = 144, kLaterWord = 48;
    BatchNames labels(stream_.memory, kLaterClass), words(stream_.memory, kLaterWord);
    while (batch.size() < most) {
      if (piece_ == piece_count_) {
        if (batch.size() > 0 && (batch_is_full(batch) || next_would_wait())) break;
        at_end_ = !parse_window();
        if (at_end_) break;
        make_room(batch, most);
      }
      append_rows(batch, most, labels, words);
    }
    batch.label_names = labels.take(batch.memory);
    batch.words = words.take(batch.memory);
  }

  bool batch_is_full(const RawRows& batch) const {
    return stream_.batch_bytes > 0 && batch.rows.bytes() >= stream_.batch_bytes;
  }

  // A live input without a whole line yet.
  bool next_would_wait() {
    if (!stream_.live || !next_text_.empty() || windows_.at_end() || read_failure_) return false;
    read_ahead(false);
    return next_text_.empty() && !windows_.at_end();
  }

  UserError refusal(const OverBudget& over) const {
    if (read_failure_ && windows_.long_line() > 0)
      return memory_error(over, input_.name(), line_,
                          fmt::format("{} of this line", size_text(windows_.long_line())),
                          "write one row a line, or raise --memory-limit");
    const bool cuts = !has_words(rules_.format) && stream_.max_features == 0;
    const char* const less = cuts                  ? ", keep fewer features (--max-features)"
                             : rules_.ngrams.any() ? ", ask for fewer n-grams (--word-ngrams, --char-ngrams)"
                                                   : "";
    const bool streams = rules_.format != Format::text && rules_.format != Format::triples;
    return memory_error(over, input_.name(), line_, counted(rows_done_, "row"),
                        fmt::format("read fewer rows (--max-rows){}{}, or raise --memory-limit", less,
                                    streams ? kOrStream : ""));
  }

  // Before there are rows.
  void read_first(bool wait) {
    try {
      read_ahead(wait);
    } catch (const OverBudget& over) {
      read_failure_ = std::current_exception();
      throw refusal(over);
    }
  }

  void read_header() {
    const std::string_view line = next_text_.substr(0, next_text_.find('\n'));
    header_ = parse_xml_header(line);
    if (!header_)
      throw file_error(input_.name(), 1,
                       fmt::format("header {} is not three whole numbers", in_quotes(trimmed(line))),
                       "begin the file with 'rows features labels', or give its format with --format");
    if (header_->features > kMostFeatures)
      throw file_error(input_.name(), 1, fmt::format("header declares {} features", header_->features),
                       fmt::format("at most {} are possible", kMostFeatures));
    next_text_.remove_prefix(line.size() + 1);
    line_ = 2;
    if (next_text_.empty()) read_first(!stream_.live);  // the window held only the header
    rules_.features = header_->features;
    rules_.labels = header_->labels;
  }

  static std::string_view trimmed(std::string_view line) {
    return !line.empty() && line.back() == '\r' ? line.substr(0, line.size() - 1) : line;
  }

  // Parses the current window while the next one is read; false at the end of the file.
  bool parse_window() {
    if (read_failure_) std::rethrow_exception(read_failure_);
    if (stream_.live && next_text_.empty() && !windows_.at_end()) read_ahead(true);
    progress_ = next_progress_;
    std::swap(window_, next_);
    cut_pieces(next_text_);
    if (piece_count_ == 0) return false;
    parallel_for(piece_count_ + 1, threads_, [this](std::size_t chunk) {
      if (chunk > 0) {
        parse_piece(pieces_[chunk - 1], rules_);
        return;
      }
      try {
        read_ahead(!stream_.live);
      } catch (...) {
        read_failure_ = std::current_exception();  // an error in earlier rows comes first
      }
    });
    for (std::size_t i = 0; i < piece_count_; ++i) pieces_[i].charge();
    return true;
  }

  void read_ahead(bool wait) {
    next_text_ = {};
    next_text_ = wait ? windows_.read(next_) : windows_.read_ready(next_);
    next_progress_ = input_.progress();
  }

  // Reserves memory for the remaining rows from what the file has held so far: growing by halves would copy
  // all rows again and again, and touch twice the pages.
  void make_room(RawRows& batch, std::uint64_t most) const {
    std::uint64_t rows = batch.size(), nonzeros = batch.rows.nonzeros(), labels = batch.label.size();
    for (std::size_t i = 0; i < piece_count_; ++i) {
      rows += pieces_[i].rows();
      nonzeros += pieces_[i].begin.back();
      labels += pieces_[i].label.size();
    }
    // The rows themselves, the arrays made of their labels, and the last huge page of two arrays.
    constexpr std::uint64_t kRowBytes = 2 * sizeof(std::uint64_t) + sizeof(RowId), kRounding = 4U << 20;
    batch.memory.set(rows * kRowBytes + nonzeros * (sizeof(FeatureId) + sizeof(float)) +
                     labels * sizeof(std::uint32_t) + batch.lines.capacity() * sizeof(LineMark) +
                     std::min(kRounding, nonzeros * sizeof(FeatureId)));
    if (rows == 0) return;
    // Slightly more than the share read so far suggests, since the rest may be denser; at most the rows asked
    // for; and limited, since a small first window is a poor estimate.
    constexpr double kMostTimes = 64;
    constexpr double kUnknownTimes = 1.5;  // if the end of the input is unknown
    const double times = std::min({progress_ > 0 ? 1.02 / progress_ : kUnknownTimes,
                                   static_cast<double>(most) / static_cast<double>(rows), kMostTimes});
    const auto reserve = [times](auto& v, std::uint64_t size) {
      const auto scaled = [size](double by) {
        return static_cast<std::size_t>(static_cast<double>(size) * by) + 2;
      };
      if (scaled(std::min(times, 1.0)) <= v.capacity()) return;
      // If the estimate was too low, grow by a quarter at least.
      const std::size_t room = std::max(scaled(times), v.capacity() + v.capacity() / 4);
      reserve_in_place(v, room);
    };
    reserve(batch.rows.begin, rows);
    reserve(batch.rows.index, nonzeros);
    reserve(batch.rows.value, nonzeros);
    reserve(batch.label_begin, rows);
    reserve(batch.label, labels);
  }

  void cut_pieces(std::string_view text) {
    piece_ = piece_count_ = 0;
    piece_row_ = 0;
    while (!text.empty()) {
      const std::size_t newline = text.find('\n', std::min(piece_bytes_, text.size()) - 1);
      if (piece_count_ == pieces_.size()) pieces_.emplace_back(stream_.memory);
      pieces_[piece_count_].begins_file = line_ == 1 && piece_count_ == 0;
      pieces_[piece_count_++].text = text.substr(0, newline + 1);
      text.remove_prefix(newline + 1);
    }
  }

  // Appends rows of the current piece until the batch is full or the piece is used up.
  void append_rows(RawRows& batch, std::uint64_t most, BatchNames& labels, BatchNames& words) {
    Piece& piece = pieces_[piece_];
    const std::uint64_t from = piece_row_;
    const std::uint64_t to = from + std::min<std::uint64_t>(piece.rows() - from, most - batch.size());
    if (row_ + (to - from) > kMostRows)
      throw file_error(input_.name(), line_ + piece.line_of(from),
                       fmt::format("more than {} rows", kMostRows), "read fewer by --max-rows");
    const std::uint64_t kept = to - spare_rows(piece, from, to);
    if (kept > from) {
      append_lines(batch, piece, from, kept);
      labels.begin_piece(piece.names);
      words.begin_piece(piece.words);
      if (rules_.format == Format::triples) {
        append_triples(batch, piece, from, kept, labels, words);
      } else {
        append_features(batch, piece, from, kept, words);
        append_labels(batch, piece, from, kept, labels);
      }
    }
    if (piece.has_qid && !noted_qid_) {
      noted_qid_ = true;
      notes_->push_back(fmt::format("{}: qid:number is ignored", input_.name()));
    }
    piece_row_ = to;
    rows_done_ = row_;
    // An error after the last row asked for does not matter.
    if (to < piece.rows() || (piece.error && batch.size() == most)) return;
    if (piece.error)
      throw file_error(input_.name(), line_ + piece.error->line, piece.error->found, piece.error->advice);
    line_ += piece.line_count;
    ++piece_;
    piece_row_ = 0;
  }

  // Counts the rows. Empty lines after the last row of an XMLRepository header are not rows; returns how many
  // of the last rows of [from, to) lie beyond the header's count.
  std::uint64_t spare_rows(const Piece& piece, std::uint64_t from, std::uint64_t to) {
    if (!header_ || row_ + (to - from) <= header_->rows) {
      row_ += to - from;
      return 0;
    }
    const std::uint64_t inside = header_->rows > row_ ? header_->rows - row_ : 0;
    std::uint64_t spare = 0;
    for (std::uint64_t i = from + inside; i < to; ++i)
      spare += piece.begin[i] == piece.begin[i + 1] && piece.label_begin[i] == piece.label_begin[i + 1];
    row_ += to - from - spare;
    return to - from - inside;  // surplus rows are counted for the error message but not delivered
  }

  void append_lines(RawRows& batch, const Piece& piece, std::uint64_t from, std::uint64_t to) const {
    const std::uint64_t before = batch.size();
    batch.mark_line(before, line_ + piece.line_of(from));
    for (const LineMark& mark : piece.lines)
      if (mark.row > from && mark.row < to) batch.mark_line(before + mark.row - from, line_ + mark.line);
  }

  void append_features(RawRows& batch, const Piece& piece, std::uint64_t from, std::uint64_t to,
                       BatchNames& words) {
    Csr& rows = batch.rows;
    const std::uint64_t first = piece.begin[from], last = piece.begin[to], shift = rows.index.size() - first;
    if (stream_.max_features > 0 && !has_words(rules_.format)) return append_wanted(batch, piece, from, to);
    for (std::uint64_t i = from; i < to; ++i) rows.begin.push_back(piece.begin[i + 1] + shift);
    rows.value.insert(rows.value.end(), piece.value.data() + first, piece.value.data() + last);
    if (!has_words(rules_.format)) {
      rows.index.insert(rows.index.end(), piece.index.data() + first, piece.index.data() + last);
      note_widths(piece, to);
      return;
    }
    for (std::uint64_t j = first; j < last; ++j) {
      const FeatureId feature = piece.index.data()[j];
      rows.index.push_back(feature < kFirstBucket ? words.number_of_name(feature) : feature);
    }
    if (words.size() >= kFirstBucket)
      throw file_error(input_.name(), line_, fmt::format("more than {} different words", kFirstBucket),
                       "read fewer rows by --max-rows");
    if (rules_.format != Format::text) sort_words_of_rows(rows, rows.rows() - (to - from));
  }

  // Row by row: names are numbered in the order of the file.
  static void append_triples(RawRows& batch, const Piece& piece, std::uint64_t from, std::uint64_t to,
                             BatchNames& labels, BatchNames& words) {
    Csr& rows = batch.rows;
    for (std::uint64_t i = from; i < to; ++i) {
      rows.index.push_back(labels.number_of_name(piece.index.data()[piece.begin[i]]));
      rows.index.push_back(words.number_of_name(piece.index.data()[piece.begin[i] + 1]));
      rows.value.insert(rows.value.end(), {1.0F, 1.0F});
      rows.begin.push_back(rows.index.size());
      for (std::uint64_t j = piece.label_begin[i]; j < piece.label_begin[i + 1]; ++j)
        batch.label.push_back(labels.number_of_label(piece.label[j]));
      batch.label_begin.push_back(batch.label.size());
    }
  }

  void note_widths(const Piece& piece, std::uint64_t to) {
    for (const Piece::Width& width : piece.widths)
      if (width.row < to) features_ = std::max(features_, width.features);
  }

  // Values of unwanted features are counted but never stored.
  void append_wanted(RawRows& batch, const Piece& piece, std::uint64_t from, std::uint64_t to) {
    Csr& rows = batch.rows;
    for (std::uint64_t i = from; i < to; ++i) {
      const FeatureId *const first = piece.index.data() + piece.begin[i], *const last = piece.index.data() +
                                                                                        piece.begin[i + 1];
      const FeatureId* const end = std::lower_bound(first, last, stream_.max_features);
      const float* const value = piece.value.data() + piece.begin[i];
      rows.index.insert(rows.index.end(), first, end);
      rows.value.insert(rows.value.end(), value, value + (end - first));
      rows.begin.push_back(rows.index.size());
      batch.cut_features += static_cast<std::uint64_t>(last - end);
    }
    note_widths(piece, to);
  }

  // Word numbers of a piece ascend within its rows; those of the batch need not. Buckets follow, sorted.
  static void sort_words_of_rows(Csr& rows, std::size_t first_row) {
    std::vector<std::pair<FeatureId, float>> row;
    for (std::size_t i = first_row; i < rows.rows(); ++i) {
      const std::uint64_t begin = rows.begin[i], end = end_of_words(rows, i);
      if (std::is_sorted(rows.index.begin() + static_cast<std::ptrdiff_t>(begin),
                         rows.index.begin() + static_cast<std::ptrdiff_t>(end)))
        continue;
      row.clear();
      for (std::uint64_t j = begin; j < end; ++j) row.emplace_back(rows.index[j], rows.value[j]);
      std::sort(row.begin(), row.end());
      for (std::uint64_t j = begin; j < end; ++j) std::tie(rows.index[j], rows.value[j]) = row[j - begin];
    }
  }

  static void append_labels(RawRows& batch, const Piece& piece, std::uint64_t from, std::uint64_t to,
                            BatchNames& labels) {
    for (std::uint64_t i = from; i < to; ++i) {
      for (std::uint64_t j = piece.label_begin[i]; j < piece.label_begin[i + 1]; ++j)
        batch.label.push_back(labels.number_of_label(piece.label[j]));
      batch.label_begin.push_back(batch.label.size());
    }
  }

  void check_row_count() const {
    if (header_ && row_ != header_->rows)
      throw file_error(input_.name(), 1,
                       fmt::format("header says {} rows, the file has {}", header_->rows, row_),
                       row_ > header_->rows ? "correct the header (N D L) or remove the extra rows"
                                            : "correct the header (N D L) or restore the missing rows");
  }

  Input input_;
  StreamOptions stream_;
  std::size_t threads_, window_bytes_;
  LineWindows windows_;
  TextRules rules_;
  std::size_t piece_bytes_;
  std::vector<std::string>* notes_;
  std::optional<XmlHeader> header_;

  Scratch<char> window_, next_;  // being parsed; being read
  std::string_view next_text_;
  double progress_ = 0, next_progress_ = 0;  // share of the file before the end of each
  std::exception_ptr read_failure_;
  std::vector<Piece> pieces_;
  std::size_t piece_ = 0, piece_count_ = 0;  // current; number in the window
  std::uint64_t piece_row_ = 0;              // first row of the current piece not yet delivered
  std::uint64_t line_ = 1;                   // of the piece's first line
  std::uint64_t row_ = 0;                    // rows delivered
  std::uint64_t rows_done_ = 0;              // the same, without rows of the piece being appended
  std::uint64_t features_ = 0;               // largest feature number + 1 in them
  bool noted_qid_ = false;
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<RowSource> open_text(Input input, Format format, const StreamOptions& stream,
                                     std::vector<std::string>& notes) {
  return std::make_unique<TextSource>(std::move(input), format, stream, notes);
}

}  // namespace truemax

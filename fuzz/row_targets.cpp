// Readers of rows: text formats, dense arrays, packed files.
#include <zlib.h>
#include <zstd.h>

#include <cmath>
#include <cstdio>

#include "data/data_view.hpp"
#include "data/load.hpp"
#include "data/row_stream.hpp"
#include "data/sniff.hpp"
#include "data/sources.hpp"
#include "data/text_set.hpp"
#include "row_targets.hpp"

namespace truemax::fuzz {
namespace {

void require_csr(const Csr& rows) {
  require(!rows.begin.empty() && rows.begin.front() == 0 && rows.begin.back() == rows.index.size() &&
              rows.index.size() == rows.value.size(),
          "rows have as many values as features");
  for (std::size_t i = 0; i + 1 < rows.begin.size(); ++i)
    require(rows.begin[i] <= rows.begin[i + 1], "rows begin one after the other");
  for (const float value : rows.value) require(std::isfinite(value), "values are finite");
}

void require_promises(const RawRows& raw) {
  require_csr(raw.rows);
  require(raw.label_begin.size() == raw.rows.begin.size() && raw.label_begin.back() == raw.label.size(),
          "rows have labels");
  for (const std::uint32_t label : raw.label) require(label < raw.label_names.size(), "labels have names");
  for (const std::string& name : raw.label_names) require(!name.empty(), "a name is not empty");
  for (const double weight : raw.weight) require(std::isfinite(weight) && weight >= 0, "weights are finite");
  require(raw.weight.empty() || raw.weight.size() == raw.size(), "rows have weights");
  if (raw.format == Format::text) return;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RowView row = raw.rows.row(i);
    if (raw.format == Format::triples) {
      require(
          row.index.size() == 2 && row.index[0] < raw.label_names.size() && row.index[1] < raw.words.size(),
          "a triple has a head and a relation");
      continue;
    }
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      require(j == 0 || row.index[j - 1] < row.index[j], "features ascend");
      require(row.value[j] != 0.0F, "zeros are not stored");
    }
  }
}

// All of the rows as text: equal texts are equal rows.
std::string shown(const RawRows& raw) {
  std::string out = std::to_string(raw.features) + (raw.declared ? "!" : "") + '\n';
  const auto list = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) out += std::to_string(name.size()) + name;
    out += '\n';
  };
  list(raw.label_names);
  list(raw.words);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    for (std::uint64_t j = raw.label_begin[i]; j < raw.label_begin[i + 1]; ++j)
      out += std::to_string(raw.label[j]) + ',';
    const RowView row = raw.rows.row(i);
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      char text[48];
      out.append(text, static_cast<std::size_t>(std::snprintf(text, sizeof text, " %u:%.9g", row.index[j],
                                                              static_cast<double>(row.value[j]))));
    }
    out += '@' + std::to_string(raw.line_of(i)) + '\n';
  }
  return out;
}

RawRows read_with(const std::string& path, const RowRules& rules, std::size_t window) {
  ReadOptions options = rules.read;
  options.memory = std::make_shared<MemoryBudget>(kBudget);
  options.ngrams = rules.preprocess.ngrams();
  StreamOptions stream;
  stream.window = stream.piece = window;
  stream.labels_required = rules.labels_required;
  std::vector<std::string> notes;
  return RowStream(path, options, stream, notes).next(~0ULL);
}

// The rows of a line-based format in the format itself; empty if they cannot be written in it.
std::string written(const RawRows& raw) {
  const bool xml = raw.format == Format::xmlrepository;
  std::string out;
  if (xml) {
    std::uint64_t labels = 0;
    for (const std::string& name : raw.label_names)
      labels = std::max<std::uint64_t>(labels, std::stoull(name));
    out = std::to_string(raw.size()) + ' ' + std::to_string(raw.features) + ' ' + std::to_string(labels + 1) +
          '\n';
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RowView row = raw.rows.row(i);
    std::string line;
    for (std::uint64_t j = raw.label_begin[i]; j < raw.label_begin[i + 1]; ++j)
      line += (line.empty() ? "" : ",") + raw.label_names[raw.label[j]];
    if (raw.format == Format::triples) {
      if (line.empty()) return "";  // the tail may be missing
      out += raw.label_names[row.index[0]] + '\t' + raw.words[row.index[1]] + '\t' + line + '\n';
      continue;
    }
    if (line.empty() && (!xml || row.index.empty())) return "";
    for (std::size_t j = 0; j < row.index.size(); ++j) {
      char text[48];
      line.append(text,
                  static_cast<std::size_t>(std::snprintf(
                      text, sizeof text, " %u:%.9g", row.index[j] + (raw.format == Format::libsvm ? 1U : 0U),
                      static_cast<double>(row.value[j]))));
    }
    out += line + '\n';
  }
  return out;
}

// Rows that were read, written and read again are the same rows.
void require_round_trip(const RawRows& raw, const RowRules& rules) {
  const Format format = raw.format;
  if (!rules.read.split.empty() || !rules.read.row_weights.empty())
    return;  // not all rows, or more than rows
  const bool lines = format == Format::xmlrepository || format == Format::lshtc || format == Format::libsvm ||
                     format == Format::triples;
  std::string text = lines ? written(raw) : "";
  if (text.empty()) return;
  // The reader skips one mark. One that belongs to the first name needs another before it.
  if (text.starts_with(kByteOrderMark)) text.insert(0, kByteOrderMark);
  const MemoryFile file(text);
  RowRules again = rules;
  again.read.format = format;
  RawRows back = read_with(file.path(), again, 1 << 14);
  RawRows want = raw;
  // Lines without rows, explicit zeros and the order of first occurrence are not written.
  want.features = back.features = 0;
  want.lines = back.lines;
  require(shown(back) == shown(want), "rows that are written and read again are the same");
}

void require_promises(const Dataset& data, const DataView& view) {
  require_csr(data.rows);
  require(data.classes->size() >= 2 && data.space->features >= 1, "there is something to learn");
  for (const FeatureId f : data.rows.index)
    require(f < data.space->features, "features are numbered below D");
  for (const FeatureId f : data.words) require(f < data.space->features, "words are numbered below D");
  for (const ClassId k : data.label) require(k < data.classes->size(), "labels are numbered below K");
  for (const double w : data.weight) require(std::isfinite(w) && w > 0, "examples have finite weights");
  for (const ExampleId i : view.examples()) {
    const RowView x = view.x(i);
    require(x.index.size() == x.value.size(), "an example has a row");
  }
}

// The file as data of a model that was trained on it: every label is known, and no row is lost.
void require_later_use(const std::string& path, const RowRules& rules, const Dataset& trained) {
  const RowPreparer preparer(rules.preprocess, trained.classes, trained.space, true);
  RawRows raw = read_with(path, rules, 1 << 14);
  const std::size_t rows = raw.size();
  accepts("", [&] {
    const Dataset test = preparer.test_set(std::move(raw));
    for (const ClassId k : test.label) require(k < trained.classes->size(), "labels are numbered below K");
    require(test.statistics.unseen == 0, "labels of the training rows are known");
  });
  raw = read_with(path, rules, 1 << 14);
  accepts("", [&] {
    const Dataset wanted = preparer.prediction_rows(std::move(raw));
    require(wanted.rows.rows() == rows || !wanted.words.empty() || rules.read.format == Format::text,
            "every row is predicted");
    require_csr(wanted.rows);
  });
}

}  // namespace

bool read_rows_of(std::string_view bytes, const RowRules& rules) {
  const MemoryFile file(bytes);
  RowRules with_piece = rules;
  with_piece.later = bytes.size() % 4 == 1;
  with_piece.piece = std::max(rules.piece, bytes.size() / 50);  // more would only take longer
  return read_rows_of(file.path(), file.path(), with_piece);
}

bool read_rows_of(const std::string& path, const std::string& named, const RowRules& rules) {
  RawRows raw, small;
  const bool read = accepts(named, [&] { raw = read_with(path, rules, 1 << 14); });
  const bool in_pieces = accepts(named, [&] { small = read_with(path, rules, rules.piece); });
  require(read == in_pieces, "windows do not decide what is accepted");
  if (!read) return false;
  require_promises(raw);
  require(shown(raw) == shown(small), "windows do not change rows");
  small = RawRows();
  if (rules.as_text) require_round_trip(raw, rules);
  // Data that can be read but not trained on, such as one class, are refused here.
  Dataset data;
  const bool trains = accepts("", [&] { data = make_training_set(std::move(raw), rules.preprocess); });
  if (!trains) return true;
  require_promises(data, DataView(data));
  if (rules.later) require_later_use(path, rules, data);
  return true;
}

namespace {

bool read_as(std::string_view bytes, Format format) {
  RowRules rules;
  rules.read.format = format;
  rules.preprocess.labels = bytes.size() % 2 == 0 ? LabelRule::all : LabelRule::first;
  rules.preprocess.normalize = bytes.size() % 3 == 0 ? Normalize::l2 : Normalize::none;
  if (bytes.size() % 5 == 0 && !has_words(format)) rules.preprocess.hash_features = 8;
  if (bytes.size() % 7 == 0 && !has_words(format))
    rules.read.max_features = rules.preprocess.max_features = 3;
  if (rules.preprocess.hash_features > 0) rules.read.max_features = rules.preprocess.max_features = 0;
  return read_rows_of(bytes, rules);
}

}  // namespace

bool read_any_format(std::string_view bytes) {
  RowRules rules;
  rules.labels_required = false;
  if (!bytes.empty()) {  // the first byte is the format of the model that the data are for
    constexpr Format kExpected[] = {Format::automatic, Format::xmlrepository, Format::lshtc, Format::libsvm,
                                    Format::fasttext,  Format::triples,       Format::text};
    rules.read.expected = kExpected[static_cast<unsigned char>(bytes.front()) % std::size(kExpected)];
    bytes.remove_prefix(1);
  }
  return read_rows_of(bytes, rules);
}

bool read_xmlrepository(std::string_view bytes) {
  return read_as(bytes, Format::xmlrepository);
}

bool read_lshtc(std::string_view bytes) {
  return read_as(bytes, Format::lshtc);
}

bool read_libsvm(std::string_view bytes) {
  return read_as(bytes, Format::libsvm);
}

bool read_fasttext(std::string_view bytes) {
  return read_as(bytes, Format::fasttext);
}

bool read_ngrams(std::string_view bytes) {
  RowRules rules;
  rules.read.format = Format::fasttext;
  rules.preprocess.word_ngrams = 1 + bytes.size() % 4;
  rules.preprocess.char_ngrams = bytes.size() % 3 == 0 ? CountSpan{} : CountSpan{2, 2 + bytes.size() % 5};
  rules.preprocess.ngram_buckets = bytes.size() % 2 == 0 ? 7 : PreprocessOptions::kDefaultNgramBuckets;
  if (!rules.preprocess.ngrams().any()) rules.preprocess.word_ngrams = 2;
  return read_rows_of(bytes, rules);
}

bool read_plain_text(std::string_view bytes) {
  constexpr EncoderKind kKinds[] = {EncoderKind::context, EncoderKind::cbow, EncoderKind::skipgram};
  RowRules rules;
  rules.read.format = Format::text;
  rules.preprocess.encoder = kKinds[bytes.size() % 3];
  rules.preprocess.context = 1 + bytes.size() % 4;
  rules.preprocess.min_count = 1 + bytes.size() % 2;
  return read_rows_of(bytes, rules);
}

bool read_triples(std::string_view bytes) {
  RowRules rules;
  rules.read.format = Format::triples;
  rules.labels_required = bytes.size() % 2 == 0;
  return read_rows_of(bytes, rules);
}

namespace {

// Features, and the labels 0, 1, 0, ... of as many rows as the features are said to have, up to three.
bool read_dense(std::string_view bytes, Format format) {
  RowRules rules;
  rules.read.format = format;
  rules.labels_required = false;
  if (bytes.size() % 7 == 0) rules.read.max_features = rules.preprocess.max_features = 3;
  static const MemoryFile labels(std::string("\0\0\x08\x01\0\0\0\x03\0\1\0", 11));
  if (bytes.size() % 2 == 0) rules.read.label_file = labels.path();
  return read_rows_of(bytes, rules);
}

}  // namespace

bool read_idx(std::string_view bytes) {
  return read_dense(bytes, Format::idx);
}

bool read_npy(std::string_view bytes) {
  return read_dense(bytes, Format::npy);
}

// The labels of three rows of features, one of them without a number.
bool read_labels(std::string_view bytes) {
  static const MemoryFile features(std::string("\0\0\x08\x02\0\0\0\x03\0\0\0\x02\1\0\2\3\0\0", 18));
  const MemoryFile file(bytes);
  RowRules rules;
  rules.read.format = Format::idx;
  rules.read.label_file = file.path();
  return read_rows_of(features.path(), "/proc/self/fd/", rules);
}

// The bytes are a packed file, or they are packed first: a checksum would refuse most changes.
bool read_packed(std::string_view bytes) {
  RowRules rules;
  rules.read.format = Format::libsvm;
  if (bytes.empty()) return false;
  const char how = bytes.front();
  bytes.remove_prefix(1);
  if (how == 'g') {
    std::string out(bytes.size() + bytes.size() / 100 + 100, '\0');
    z_stream stream{};
    require(deflateInit2(&stream, 1, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib starts");
    std::string in(bytes);
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return read_rows_of(out, rules);
  }
  if (how == 'z') {
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
    return read_rows_of(out, rules);
  }
  return read_rows_of(bytes, rules);
}

}  // namespace truemax::fuzz

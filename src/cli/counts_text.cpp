#include "cli/counts_text.hpp"

#include <fmt/format.h>

#include "core/files.hpp"
#include "core/text.hpp"

namespace truemax {
namespace {

std::string triples_text(const char* name, const DataView& data) {
  const DataStatistics& s = data.statistics;
  std::string text = fmt::format(
      "{:<8}{}, {}, {}", name, counted(data.row_count() / data.rows_together, "triple"),
      counted(data.classes->size(), "entity", "entities"), counted(data.space->relations.size(), "relation"));
  if (s.rows_of_weight_zero > 0)
    text += fmt::format("; {} of weight 0 dropped", counted(s.rows_of_weight_zero, "triple"));
  if (s.unseen > 0)
    text += fmt::format("; {} with a name unseen in training left out of the log-loss",
                        counted(s.unseen, "triple"));
  return text + "\n";
}

}  // namespace

const char* example_word(LabelRule labels) {
  return labels == LabelRule::all ? "example" : "row";
}

std::string stream_text(const StreamedRows& rows) {
  return fmt::format("{:<8}{} of about {}, window {} ({})\n", "stream", counted(rows.blocks(), "block"),
                     counted((rows.rows() + rows.blocks() - 1) / rows.blocks(), "row"),
                     counted(rows.window_blocks(), "block"), size_text(rows.window_bytes()));
}

std::string counts_text(const char* name, const DataView& data, LabelRule labels) {
  const DataStatistics& s = data.statistics;
  if (data.space->of_triples()) return triples_text(name, data);
  std::string rows = counted(data.size(), example_word(labels));
  if (labels == LabelRule::all) rows += " of " + counted(data.row_count(), "row");
  if (data.space->encoder == EncoderKind::skipgram)
    rows = counted(data.size(), "pair") + " of " + counted(data.row_count(), "word");
  std::string text =
      fmt::format("{:<8}{}, {}, {}, {} ({})", name, rows, counted(data.space->features, "feature"),
                  counted(data.classes->size(), "class", "classes"), counted(data.nonzeros(), "non-zero"),
                  format_name(data.format));
  const auto left_out = [&](std::uint64_t count, const char* what, const char* why) {
    if (count > 0) text += fmt::format("; {} {}", counted(count, what), why);
  };
  left_out(s.rows_of_weight_zero, "row", "of weight 0 dropped");
  left_out(s.rows_without_label, "row", "without label dropped");
  left_out(s.rows_without_features, "row", "without features dropped");
  left_out(s.unseen, example_word(labels), "with a label unseen in training left out");
  left_out(s.unknown_words, "unknown word", "dropped");
  left_out(s.unknown_ngrams, "unknown n-gram", "dropped");
  left_out(s.unk_words, "unknown word", "counted as <unk>");
  return text + "\n";
}

}  // namespace truemax

#include "data/raw_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace truemax {

std::uint64_t RawRows::line_of(std::size_t i) const {
  const auto after = std::upper_bound(lines.begin(), lines.end(), i,
                                      [](std::uint64_t row, const LineMark& mark) { return row < mark.row; });
  if (after == lines.begin()) return 0;
  const LineMark& mark = *(after - 1);
  return mark.line + (i - mark.row);
}

void RawRows::mark_line(std::uint64_t i, std::uint64_t line) {
  if (!lines.empty() && lines.back().line + (i - lines.back().row) == line) return;
  lines.push_back({i, line});
}

UserError RawRows::error(std::size_t i, std::string_view found, std::string_view advice) const {
  const std::uint64_t line = line_of(i);
  if (line > 0) return file_error(path, line, found, advice);
  return file_error(path, 0, fmt::format("row {}: {}", first_row + i + 1, found), advice);
}

RawRows gather_rows(const RawRows& all, const std::vector<std::uint64_t>& chosen) {
  RawRows out;
  out.label_names = all.label_names;
  out.words = all.words;
  out.path = all.path;
  out.format = all.format;
  out.features = all.features;
  out.declared = all.declared;
  out.first_row = all.first_row;
  std::uint64_t nonzeros = 0, labels = 0;
  for (const std::uint64_t i : chosen) {
    nonzeros += all.rows.begin[i + 1] - all.rows.begin[i];
    labels += all.label_begin[i + 1] - all.label_begin[i];
  }
  constexpr std::uint64_t kRowBytes = 2 * sizeof(std::uint64_t) + sizeof(double) + sizeof(LineMark);
  out.memory = MemoryCharge(all.memory.budget());
  out.memory.set(nonzeros * (sizeof(FeatureId) + sizeof(float)) + labels * sizeof(std::uint32_t) +
                 chosen.size() * kRowBytes +
                 (all.label_names.size() + all.words.size()) * sizeof(std::string));
  out.label_begin.reserve(chosen.size() + 1);
  out.label.reserve(labels);
  if (!all.weight.empty()) out.weight.reserve(chosen.size());
  out.rows.begin.reserve(chosen.size() + 1);
  out.rows.index.reserve(nonzeros);
  out.rows.value.reserve(nonzeros);
  for (const std::uint64_t i : chosen) {
    const RowView row = all.rows.row(i);
    if (!all.lines.empty()) out.mark_line(out.size(), all.line_of(i));
    out.rows.index.insert(out.rows.index.end(), row.index.begin(), row.index.end());
    out.rows.value.insert(out.rows.value.end(), row.value.begin(), row.value.end());
    out.rows.begin.push_back(out.rows.index.size());
    for (std::uint64_t j = all.label_begin[i]; j < all.label_begin[i + 1]; ++j)
      out.label.push_back(all.label[j]);
    out.label_begin.push_back(out.label.size());
    if (!all.weight.empty()) out.weight.push_back(all.weight[i]);
  }
  return out;
}

}  // namespace truemax

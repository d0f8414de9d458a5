#include "data/formats.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include "data/sources.hpp"

namespace truemax {
namespace {

std::unique_ptr<RowSource> text(Input input, const OpenRequest& r) {
  return open_text(std::move(input), r.format, r.stream, r.notes);
}
std::unique_ptr<RowSource> dense(Input input, const OpenRequest& r) {
  return open_dense(std::move(input), r.format, r.stream, r.find_labels);
}

// In the order of detection: formats with unmistakable marks first.
constexpr std::array<FormatInfo, 7> kFormats{{
    {Format::npy, "npy", "NumPy array of features, labels in a file beside it", false, FileHead::is_npy,
     dense},
    {Format::idx, "idx", "idx array of features (MNIST), labels in a file beside it", false, FileHead::is_idx,
     dense},
    {Format::xmlrepository, "xmlrepository",
     "label,label feature:value ..., counted from 0, below a line of rows, features and labels", true,
     FileHead::is_xmlrepository, text},
    {Format::fasttext, "fasttext", "words and __label__name", true, FileHead::is_fasttext, text},
    {Format::lshtc, "lshtc", "label, label feature:value ..., counted from 0", true, FileHead::is_lshtc,
     text},
    {Format::libsvm, "libsvm", "label feature:value ..., features counted from 1", true, FileHead::is_libsvm,
     text},
    {Format::text, "text", "plain text, blanks between words: predicts each word; never recognised by itself",
     false, FileHead::is_never, text},
}};

}  // namespace

std::span<const FormatInfo> formats() {
  return kFormats;
}

const FormatInfo& find_format(Format format) {
  for (const FormatInfo& info : kFormats)
    if (info.format == format) return info;
  throw std::logic_error("a format that is not in the table");
}

}  // namespace truemax

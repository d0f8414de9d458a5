#include "data/formats.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include "data/cache_file.hpp"
#include "data/sources.hpp"

namespace truemax {
namespace {

std::unique_ptr<RowSource> text(Input input, const OpenRequest& r) {
  return open_text(std::move(input), r.format, r.stream, r.notes);
}
std::unique_ptr<RowSource> dense(Input input, const OpenRequest& r) {
  return open_dense(std::move(input), r.format, r.stream, r.find_labels);
}

// From its file, not from `input`: it is read in any order.
std::unique_ptr<RowSource> cache(Input /*input*/, const OpenRequest& r) {
  return open_cache(std::make_shared<const CacheFile>(r.path, r.stream.memory), r.stream);
}

// In the order of detection: formats with unmistakable marks first.
constexpr std::array<FormatInfo, 9> kFormats{{
    {Format::cache, "cache", "rows of any format, written by truemax convert", false, false,
     FileHead::is_cache, cache},
    {Format::npy, "npy", "NumPy array of features, labels in a file beside it", false, false,
     FileHead::is_npy, dense},
    {Format::idx, "idx", "idx array of features (MNIST), labels in a file beside it", false, false,
     FileHead::is_idx, dense},
    {Format::triples, "triples", "head, relation and tail, separated by tabs; never recognised, always named",
     true, false, FileHead::is_triples, text},
    {Format::xmlrepository, "xmlrepository",
     "label,label feature:value ..., counted from 0, below a line of rows, features and labels", true, true,
     FileHead::is_xmlrepository, text},
    {Format::fasttext, "fasttext", "words and __label__name", true, true, FileHead::is_fasttext, text},
    {Format::lshtc, "lshtc", "label, label feature:value ..., counted from 0", true, true, FileHead::is_lshtc,
     text},
    {Format::libsvm, "libsvm", "label feature:value ..., features counted from 1", true, true,
     FileHead::is_libsvm, text},
    {Format::text, "text", "plain text, blanks between words: predicts each word; never recognised by itself",
     false, false, FileHead::is_never, text},
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
